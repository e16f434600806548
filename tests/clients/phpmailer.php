<?php
// SPDX-License-Identifier: ISC
// php phpmailer.php CASE.json: PHPMailer, kept alive between its messages.
require '/usr/share/php/libphp-phpmailer/autoload.php';
use PHPMailer\PHPMailer\PHPMailer;
$c = json_decode(file_get_contents($argv[1]));
$m = new PHPMailer();
$m->isSMTP();
$m->Host = 'localhost';
$m->Port = $c->port;
$m->SMTPSecure = $c->tls ? PHPMailer::ENCRYPTION_SMTPS
    : PHPMailer::ENCRYPTION_STARTTLS;
$m->SMTPOptions = ['ssl' => ['cafile' => $c->ca]];
$m->SMTPAuth = true;
$m->SMTPKeepAlive = true;
$m->SMTPDebug = 2;
$m->Debugoutput = function ($line) { echo $line, "\n"; };
$m->Username = $c->user;
$m->Password = $c->key;
$m->CharSet = 'UTF-8';
$m->setFrom($c->sender, 'Agent');
$m->Sender = $c->user;
$bad = 0;
for ($i = 1; $i <= $c->count; $i++) {
	$m->clearAddresses();
	if (!$m->addAddress($c->rcpt)) {
		echo $m->ErrorInfo, "\n";
		$bad = 1;
		continue;
	}
	$m->Subject = $c->subject . ' ' . $i;
	$m->Body = $c->body;
	if (!$m->send()) {
		echo $m->ErrorInfo, "\n";
		$bad = 1;
	}
}
$m->smtpClose();
exit($bad);
