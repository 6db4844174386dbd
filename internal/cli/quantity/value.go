// Package quantity parses the values of flags. It refuses malformed and non-positive values; [belljar.Limits.Resolve] checks the host's limits.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a positive time span: "90", "1.5", "30s", "5m", "1h30m".
type Seconds float64

// UnmarshalText parses a time span.
func (s *Seconds) UnmarshalText(text []byte) error {
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		span, err := time.ParseDuration(string(text))
		if err != nil {
			return fmt.Errorf("%q is not a time, such as 30, 30s or 5m", text)
		}
		value = span.Seconds()
	}
	*s = Seconds(value)
	return positive(string(text), value)
}

// Mebibytes is a size in MiB, a positive whole number: "512" and "512m" are 512 MiB, "1g" is 1024 MiB.
type Mebibytes int

// UnmarshalText parses a size.
func (m *Mebibytes) UnmarshalText(text []byte) error {
	lower := strings.ToLower(strings.TrimSpace(string(text)))
	number := strings.TrimRight(lower, "abcdefghijklmnopqrstuvwxyz")
	var factor float64
	switch lower[len(number):] {
	case "", "m", "mb", "mib":
		factor = 1
	case "g", "gb", "gib":
		factor = 1 << 10
	case "t", "tb", "tib":
		factor = 1 << 20
	case "k", "kb", "kib":
		factor = 1.0 / 1024
	default:
		return fmt.Errorf("%q is not a size, such as 512m or 1g", text)
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q is not a size, such as 512m or 1g", text)
	}
	value *= factor
	if err := positive(string(text), value); err != nil {
		return err
	}
	if value != math.Trunc(value) {
		return fmt.Errorf("%q is not a whole number of MiB", text)
	}
	*m = Mebibytes(math.Min(value, math.MaxInt32)) // the limits refuse anything larger
	return nil
}

// Cores is a positive number of processors: "2", "0.5".
type Cores float64

// UnmarshalText parses a share of processors.
func (c *Cores) UnmarshalText(text []byte) error {
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%q is not a number of cores, such as 2 or 0.5", text)
	}
	*c = Cores(value)
	return positive(string(text), value)
}

// Count is a positive whole number.
type Count int

// UnmarshalText parses a whole number.
func (n *Count) UnmarshalText(text []byte) error {
	value, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return fmt.Errorf("must be a whole number that is not too large, got %q", text)
	}
	*n = Count(value)
	return positive(string(text), float64(value))
}

func positive(text string, value float64) error {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return fmt.Errorf("%q is not a finite number", text)
	case value <= 0:
		return fmt.Errorf("must be more than 0, got %q", text)
	}
	return nil
}
