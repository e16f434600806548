# SPDX-License-Identifier: ISC
# perl email-sender.pl CASE.json: Email::Sender, one transport kept open.
use strict;
use warnings;
use utf8;
use JSON::PP;
use Email::Sender::Simple qw(try_to_sendmail);
use Email::Sender::Transport::SMTP::Persistent;
use Encode qw(encode);
use Try::Tiny;

open my $f, '<:raw', $ARGV[0] or die;
my $c = decode_json(join '', <$f>);
my $t = Email::Sender::Transport::SMTP::Persistent->new(
	host => 'localhost', port => $c->{port},
	ssl => $c->{tls} ? 'ssl' : 'starttls',
	ssl_options => { SSL_ca_file => $c->{ca} },
	sasl_username => $c->{user}, sasl_password => $c->{key},
	helo => 'localhost', timeout => 30);
my $bad = 0;
for my $i (1 .. $c->{count}) {
	my $text = encode('UTF-8', "From: Agent <$c->{sender}>\n"
		. "To: $c->{to_header}\nSubject: from Email::Sender $i\n"
		. "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
		. "Content-Transfer-Encoding: 8bit\n\n$c->{body}");
	try {
		my $got = Email::Sender::Simple->send($text, {
			from => $c->{user}, to => encode('UTF-8', $c->{rcpt}),
			transport => $t });
		print $got->message, "\n";
	} catch {
		print "$_\n";
		$bad = 1;
	};
}
$t->disconnect;
exit $bad;
