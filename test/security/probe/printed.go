//go:build linux

package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// printed prints a secret in every common form. Each line has its length, so that the test can detect a change.
func printed(_ *report, args []string) {
	secret := args[0]
	show := func(name, text string, step int) {
		fmt.Printf("form %s %d [", name, len(text))
		for ; len(text) > 0; text = text[min(step, len(text)):] {
			_, _ = os.Stdout.WriteString(text[:min(step, len(text))])
		}
		fmt.Println("]")
	}
	const whole = 1 << 20
	for name, text := range map[string]string{
		"raw": secret, "header": "Bearer " + secret, "hex": hex.EncodeToString([]byte(secret)), "upper-hex": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": "?token=" + url.QueryEscape(secret), "path": "/" + url.PathEscape(secret), "user": "https://me:" + url.QueryEscape(secret) + "@api.test/",
	} {
		show(name, text, whole)
		show(name+"-bytes", text, 1)
	}
	for phase, before := range []string{"", "u", "us", "user:", "Bearer "} {
		show(fmt.Sprint("base64-", phase), base64.StdEncoding.EncodeToString([]byte(before+secret)), whole)
		show(fmt.Sprint("base64-", phase, "-tail"), base64.URLEncoding.EncodeToString([]byte(before+secret+"tail")), 1)
	}
	fmt.Println("end of forms")
}
