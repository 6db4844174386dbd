package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value parses and formats one field of a Config.
type value struct {
	kind  string
	bound string
	set   func(text string) error
	get   func() any
}

func text(p *string, check ...func(string) error) value {
	return value{kind: "text", get: func() any { return *p }, set: func(s string) error {
		for _, c := range check {
			if err := c(s); err != nil {
				return err
			}
		}
		*p = s
		return nil
	}}
}

func oneOf(p *string, options ...string) value {
	named := slices.DeleteFunc(slices.Clone(options), func(option string) bool { return option == "" }) // which is unset
	return value{kind: "text", bound: strings.Join(named, ", "), get: func() any { return *p }, set: func(s string) error {
		if !slices.Contains(options, s) {
			return fmt.Errorf("must be %s", strings.Join(named, " or "))
		}
		*p = s
		return nil
	}}
}

func boolean(p *bool) value {
	return value{kind: "boolean", get: func() any { return *p }, set: func(s string) error {
		switch strings.ToLower(s) {
		case "true", "yes", "on", "1":
			*p = true
		case "false", "no", "off", "0":
			*p = false
		default:
			return errors.New("must be true or false")
		}
		return nil
	}}
}

func integer[T int | int64](p *T, least, most int64) value {
	bound := between(float64(least), float64(most))
	return value{kind: "integer", bound: bound, get: func() any { return *p }, set: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return errors.New("must be a whole number")
		}
		if n < least || n > most {
			return errors.New("must be " + bound)
		}
		*p = T(n)
		return nil
	}}
}

func number(p *float64, least, most float64) value {
	bound := between(least, most)
	return value{kind: "number", bound: bound, get: func() any { return *p }, set: func(s string) error {
		n, err := parseNumber(s)
		if err != nil {
			return err
		}
		if n < least || n > most {
			return errors.New("must be " + bound)
		}
		*p = n
		return nil
	}}
}

// span is a duration, written as a number of units.
func span(p *time.Duration, unit time.Duration, least, most float64) value {
	bound := between(least, most)
	return value{kind: "number", bound: bound,
		get: func() any { return float64(*p) / float64(unit) },
		set: func(s string) error {
			n, err := parseNumber(s)
			if err != nil {
				return err
			}
			if n < least || n > most {
				return errors.New("must be " + bound)
			}
			*p = time.Duration(math.Round(n * float64(unit)))
			return nil
		}}
}

// orNone makes a span accept 0, too.
func orNone(p *time.Duration, v value) value {
	set, bound := v.set, "0, or "+v.bound
	v.bound = bound
	v.set = func(s string) error {
		n, err := parseNumber(s)
		switch {
		case err != nil:
			return err
		case n == 0:
			*p = 0
		case set(s) != nil:
			return errors.New("must be " + bound)
		}
		return nil
	}
	return v
}

func list(p *[]string, check func(string) error) value {
	return value{kind: "list", get: func() any { return *p }, set: func(s string) error {
		items, err := parseList(s)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := check(item); err != nil {
				return fmt.Errorf("%q: %w", item, err)
			}
		}
		*p = items
		return nil
	}}
}

// pairs is a list of name=value. It refuses a repeated name, because only the last one would count.
func pairs(p *[]string, check func(string) error) value {
	v := list(p, check)
	set := v.set
	v.set = func(s string) error {
		if err := set(s); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, pair := range *p {
			name, _, _ := strings.Cut(pair, "=")
			if seen[name] {
				return fmt.Errorf("sets %q twice", name)
			}
			seen[name] = true
		}
		return nil
	}
	return v
}

// networks is a list of CIDRs; a bare address is a network of one host.
func networks(p *[]netip.Prefix) value {
	return value{kind: "list", bound: "networks as 10.0.0.0/8, or single addresses", get: func() any { return *p }, set: func(s string) error {
		items, err := parseList(s)
		if err != nil {
			return err
		}
		nets := []netip.Prefix{}
		for _, item := range items {
			n, err := netip.ParsePrefix(item)
			if err != nil {
				a, addrErr := netip.ParseAddr(item)
				if addrErr != nil || a.Zone() != "" {
					return fmt.Errorf("%q is not a network or an address", item)
				}
				n = netip.PrefixFrom(a, a.BitLen())
			}
			nets = append(nets, n.Masked())
		}
		*p = nets
		return nil
	}}
}

// parseList parses "a, b" or a JSON list of strings. An empty list is [].
func parseList(s string) ([]string, error) {
	items := []string{}
	if strings.HasPrefix(strings.TrimSpace(s), "[") {
		if err := json.Unmarshal([]byte(s), &items); err != nil {
			return nil, errors.New("is not a JSON list of strings")
		}
	} else {
		items = strings.Split(s, ",")
	}
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
		if items[i] == "" {
			return nil, errors.New("has an empty element")
		}
		if slices.Contains(items[:i], items[i]) {
			return nil, fmt.Errorf("names %q twice", items[i])
		}
	}
	return items, nil
}

func parseNumber(s string) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.ContainsAny(s, "xXpP_") {
		return 0, errors.New("must be a number")
	}
	return n, nil
}

func between(least, most float64) string {
	return strconv.FormatFloat(least, 'f', -1, 64) + " to " + strconv.FormatFloat(most, 'f', -1, 64)
}
