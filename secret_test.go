package belljar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestSecretsValidate(t *testing.T) {
	one := func(name string, s belljar.Secret) map[string]belljar.Secret {
		return map[string]belljar.Secret{name: s}
	}
	many, large := map[string]belljar.Secret{}, map[string]belljar.Secret{}
	for i := range 33 {
		many[fmt.Sprint("S", i)] = belljar.Secret{From: "STORED"}
	}
	for i := range 5 {
		large[fmt.Sprint("S", i)] = belljar.Secret{Value: strings.Repeat("x", 60<<10)}
	}
	for name, test := range map[string]struct {
		secrets map[string]belljar.Secret
		field   string // "" for valid ones
	}{
		"none":         {},
		"value":        {one("TOKEN", belljar.Secret{Value: "12345678"}), ""},
		"largest":      {one("_t9", belljar.Secret{Value: strings.Repeat("x", 64<<10)}), ""},
		"stored":       {one("TOKEN", belljar.Secret{From: "TOKEN"}), ""},
		"both":         {one("TOKEN", belljar.Secret{Value: "12345678", From: "TOKEN"}), "secrets.TOKEN"},
		"neither":      {one("TOKEN", belljar.Secret{}), "secrets.TOKEN.value"},
		"short":        {one("TOKEN", belljar.Secret{Value: "hunter2"}), "secrets.TOKEN.value"},
		"mostly white": {one("TOKEN", belljar.Secret{Value: " hunter2\n\n"}), "secrets.TOKEN.value"},
		"too large":    {one("TOKEN", belljar.Secret{Value: strings.Repeat("hunter2 ", 9<<10)}), "secrets.TOKEN.value"},
		"no text":      {one("TOKEN", belljar.Secret{Value: "hunter2\xff\xff"}), "secrets.TOKEN.value"},
		"a NUL":        {one("TOKEN", belljar.Secret{Value: "hunter2\x00\x00"}), "secrets.TOKEN.value"},
		"from a path":  {one("TOKEN", belljar.Secret{From: "../TOKEN"}), "secrets.TOKEN.from"},
		"name":         {one("a-b", belljar.Secret{From: "TOKEN"}), "secrets"},
		"empty name":   {one("", belljar.Secret{From: "TOKEN"}), "secrets"},
		"path":         {one("../x", belljar.Secret{From: "TOKEN"}), "secrets"},
		"line":         {one("TOKEN\n", belljar.Secret{From: "TOKEN"}), "secrets"},
		"long name":    {one(strings.Repeat("x", 65), belljar.Secret{From: "TOKEN"}), "secrets"},
		"many":         {many, "secrets"},
		"together":     {large, "secrets"},
	} {
		run := belljar.RunSpec{BaseImage: "host", Command: []string{"true"}, Secrets: test.secrets}
		session := belljar.SessionSpec{BaseImage: "host", Secrets: test.secrets}
		for _, err := range []error{run.Validate(), session.Validate()} {
			var e *belljar.Error
			if test.field == "" && err != nil || test.field != "" && (!errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != test.field) {
				t.Errorf("%s: %v", name, err)
			}
			if raw, _ := json.Marshal(e); err != nil && strings.Contains(string(raw)+err.Error(), "hunter") {
				t.Errorf("%s: the error shows the value: %v", name, err)
			}
		}
	}
	if err := (belljar.SecretSpec{Value: "hunter2"}).Validate(); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("%v", err)
	}
}

// A secret that is formatted into a message by mistake is not shown.
func TestSecretIsNotFormatted(t *testing.T) {
	s := belljar.Secret{Value: "hunter2 hunter2"}
	spec := belljar.RunSpec{Secrets: map[string]belljar.Secret{"TOKEN": s}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		for _, v := range []any{s, &s, spec, &spec, belljar.SecretSpec{Value: "hunter2 hunter2"}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "hunter") {
				t.Errorf("%s of a %T: %s", verb, v, text)
			}
		}
	}
}
