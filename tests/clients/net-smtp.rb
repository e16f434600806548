# SPDX-License-Identifier: ISC
# ruby net-smtp.rb CASE.json: Ruby's Net::SMTP, its messages in one session.
require "json"
require "net/smtp"
c = JSON.parse(File.read(ARGV[0], encoding: "UTF-8"))
context = Net::SMTP.default_ssl_context
context.ca_file = c["ca"]
context.verify_mode = OpenSSL::SSL::VERIFY_PEER
smtp = Net::SMTP.new("localhost", c["port"])
smtp.disable_starttls
c["tls"] ? smtp.enable_tls(context) : smtp.enable_starttls(context)
begin
  smtp.start("localhost", c["user"], c["key"], :plain) do |s|
    (1..c["count"]).each do |i|
      text = "From: Agent <#{c["sender"]}>\nTo: #{c["to_header"]}\n" \
        "Subject: from net-smtp #{i}\nMIME-Version: 1.0\n" \
        "Content-Type: text/plain; charset=utf-8\n" \
        "Content-Transfer-Encoding: 8bit\n\n" + c["body"]
      puts s.send_message(text, c["user"], c["rcpt"]).string
    end
  end
rescue StandardError => e
  puts "#{e.class}: #{e.message}"
  exit 1
end
