// SPDX-License-Identifier: ISC
// java -cp javax.mail.jar Send.java ARGUMENTS: Jakarta Mail, one transport.
import java.util.Properties;
import javax.mail.Session;
import javax.mail.Transport;
import javax.mail.internet.InternetAddress;
import javax.mail.internet.MimeMessage;

public class Send {
	// PORT tls|starttls USER KEY SENDER RCPT SUBJECT COUNT BODYFILE; the
	// authority is in the trust store that -Djavax.net.ssl.trustStore names
	public static void main(String[] a) throws Exception {
		Properties p = new Properties();
		String how = a[1].equals("tls") ? "smtps" : "smtp";
		p.put("mail." + how + ".auth", "true");
		p.put("mail.smtp.starttls.required", "true");
		p.put("mail.smtp.starttls.enable", "true");
		p.put("mail." + how + ".from", a[2]);
		p.put("mail." + how + ".ssl.checkserveridentity", "true");
		p.put("mail.mime.allowutf8", "true");
		Session session = Session.getInstance(p);
		String body = new String(java.nio.file.Files.readAllBytes(
		    java.nio.file.Paths.get(a[8])), "UTF-8");
		try (Transport t = session.getTransport(how)) {
			t.connect("localhost", Integer.parseInt(a[0]), a[2], a[3]);
			for (int i = 0; i < Integer.parseInt(a[7]); i++) {
				MimeMessage m = new MimeMessage(session);
				m.setFrom(new InternetAddress(a[4], "Agent"));
				m.setRecipient(javax.mail.Message.RecipientType.TO,
				    new InternetAddress(a[5], false));
				m.setSubject(a[6] + " " + i, "UTF-8");
				m.setText(body, "UTF-8");
				m.saveChanges();
				t.sendMessage(m, m.getAllRecipients());
				System.out.println("250 2.6.0");
			}
		} catch (javax.mail.MessagingException e) {
			for (Exception x = e; x instanceof
			    javax.mail.MessagingException; x =
			    ((javax.mail.MessagingException) x).getNextException())
				System.out.println(x.getMessage());
			System.exit(1);
		}
	}
}
