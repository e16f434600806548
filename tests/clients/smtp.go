// SPDX-License-Identifier: ISC

// smtp CASE.json: Go's net/smtp, its messages in one session.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/smtp"
	"os"
	"strings"
)

type job struct {
	Port                  int
	TLS                   bool
	CA, User, Key, Sender string
	Rcpt, Subject, Body   string
	Count                 int
	ToHeader              string `json:"to_header"`
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func dial(c job) *smtp.Client {
	pem, err := os.ReadFile(c.CA)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	conf := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	where := fmt.Sprintf("localhost:%d", c.Port)
	if c.TLS {
		conn, err := tls.Dial("tcp", where, conf)
		check(err)
		s, err := smtp.NewClient(conn, "localhost")
		check(err)
		return s
	}
	s, err := smtp.Dial(where)
	check(err)
	check(s.StartTLS(conf))
	return s
}

func main() {
	var c job
	text, err := os.ReadFile(os.Args[1])
	check(err)
	check(json.Unmarshal(text, &c))
	s := dial(c)
	check(s.Auth(smtp.PlainAuth("", c.User, c.Key, "localhost")))
	for i := 1; i <= c.Count; i++ {
		check(s.Mail(c.User))
		check(s.Rcpt(c.Rcpt))
		w, err := s.Data()
		check(err)
		_, err = fmt.Fprintf(w, "From: Agent <%s>\nTo: %s\n"+
			"Subject: from net/smtp %d\nMIME-Version: 1.0\n"+
			"Content-Type: text/plain; charset=utf-8\n"+
			"Content-Transfer-Encoding: 8bit\n\n%s",
			c.Sender, c.ToHeader, i, strings.ReplaceAll(c.Body, "\r", ""))
		check(err)
		check(w.Close())
		fmt.Println("250 2.6.0")
	}
	check(s.Quit())
}
