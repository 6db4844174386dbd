package quantity

import (
	"fmt"
	"strconv"
	"strings"
)

// Age is a positive time span, also in days: "30d", "12h", "90".
type Age float64

// UnmarshalText parses a time span.
func (a *Age) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil {
			*a = Age(n * 24 * 60 * 60)
			return positive(string(text), float64(*a))
		}
	}
	var s Seconds
	if err := s.UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is not a time, such as 30d, 12h or 45m", text)
	}
	*a = Age(s)
	return nil
}
