package secret

import (
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// broker sets the hosts of secrets: NAME=HOST[,header=NAME][,template=TEXT]. A template may contain commas.
func broker(secrets map[string]belljar.Secret, flags []string) error {
	for _, flag := range flags {
		name, where, _ := strings.Cut(flag, "=")
		s, given := secrets[name]
		host, options, _ := strings.Cut(where, ",")
		switch {
		case host == "":
			return mistake.New("write NAME=HOST, such as API_TOKEN=api.example.com", "--broker %s: names no host", flag)
		case !given:
			return mistake.New("add --secret "+name+", which has the value", "--broker %s: there is no secret %s", name, name)
		case s.Host != "":
			return mistake.New("give each host a secret of its own", "--broker %s: is given twice", name)
		}
		s.Host = host
		for options != "" {
			if template, ok := strings.CutPrefix(options, "template="); ok {
				s.Template, options = template, ""
				continue
			}
			var option string
			option, options, _ = strings.Cut(options, ",")
			header, ok := strings.CutPrefix(option, "header=")
			if !ok {
				return mistake.New("options are header=NAME and template='Bearer {}'", "--broker %s: unknown option %q", name, option)
			}
			s.Header = header
		}
		secrets[name] = s
	}
	return nil
}
