# SPDX-License-Identifier: ISC
# perl net-smtp.pl CASE.json: Net::SMTP, its messages in one session.
use strict;
use warnings;
use utf8;
use JSON::PP;
use Net::SMTP;
use Encode qw(encode);

open my $f, '<:raw', $ARGV[0] or die;
my $c = decode_json(join '', <$f>);
my %tls = (SSL_ca_file => $c->{ca}, SSL_verifycn_name => 'localhost');
my $s = Net::SMTP->new('localhost', Port => $c->{port},
	Hello => 'localhost', $c->{tls} ? (SSL => 1, %tls) : ())
	or die "no connection: $@";
sub check { return if $_[0]; print $s->code, ' ', $s->message; exit 1 }
check($s->starttls(%tls)) unless $c->{tls};
check($s->auth($c->{user}, $c->{key}));
for my $i (1 .. $c->{count}) {
	check($s->mail($c->{user}));
	check($s->to(encode('UTF-8', $c->{rcpt})));
	check($s->data);
	check($s->datasend(encode('UTF-8', "From: Agent <$c->{sender}>\n"
		. "To: $c->{to_header}\nSubject: from Net::SMTP $i\n"
		. "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
		. "Content-Transfer-Encoding: 8bit\n\n$c->{body}")));
	check($s->dataend);
	print $s->code, ' ', $s->message;
}
$s->quit;
