<?php
// SPDX-License-Identifier: ISC
// php symfony.php CASE.json: Symfony Mailer, one transport for its messages.
require '/usr/share/php/Symfony/Component/Mailer/autoload.php';
use Symfony\Component\Mailer\Transport\Smtp\EsmtpTransport;
use Symfony\Component\Mailer\Transport\Smtp\Stream\SocketStream;
use Symfony\Component\Mime\Address;
use Symfony\Component\Mime\Email;
$c = json_decode(file_get_contents($argv[1]));
$t = new EsmtpTransport('localhost', $c->port, $c->tls);
$t->setUsername($c->user);
$t->setPassword($c->key);
$t->getStream()->setStreamOptions(['ssl' => ['cafile' => $c->ca]]);
$bad = 0;
for ($i = 1; $i <= $c->count; $i++) {
	try {
		$t->send((new Email())->from(new Address($c->sender, 'Agent'))
		    ->to($c->rcpt)->subject($c->subject . ' ' . $i)
		    ->text($c->body));
		echo "250 2.6.0\n";
	} catch (\Exception $e) {
		echo $e->getMessage(), "\n";
		$bad = 1;
	}
}
exit($bad);
