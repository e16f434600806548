// SPDX-License-Identifier: ISC

// Send by SMTP with Go's net/smtp. SSL_CERT_FILE names the CA.
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/smtp"
	"os"
)

func main() {
	inbox, place := os.Getenv("POSTERN_INBOX"), os.Getenv("POSTERN_SMTPS")
	host, _, err := net.SplitHostPort(place)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := tls.Dial("tcp", place, &tls.Config{ServerName: host})
	if err != nil {
		log.Fatal(err)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		log.Fatal(err)
	}
	auth := smtp.PlainAuth("", inbox, os.Getenv("POSTERN_SMTP_KEY"), host)
	for _, step := range []func() error{
		func() error { return c.Auth(auth) },
		func() error { return c.Mail(inbox) },
		func() error { return c.Rcpt("ann@example.org") },
		func() error {
			w, err := c.Data()
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "From: %s\r\nTo: ann@example.org\r\n"+
				"Subject: From Go\r\n\r\nHello.\r\n", inbox)
			return w.Close()
		},
		c.Quit,
	} {
		if err := step(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("taken: it is held until a person approves it")
}
