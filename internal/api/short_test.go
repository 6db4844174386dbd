package api_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Errors quote the request, but only up to a limit.
func TestErrorsAreShort(t *testing.T) {
	for _, letter := range []string{"a", "ä", "€", "𝄞"} {
		long := "x" + strings.Repeat(letter, 1<<20)
		e := &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: "it is " + long, Hint: long,
			Details: map[string]any{"provided": long, "field": "f", "maximum": 5},
		}
		for _, accept := range []string{"", "application/problem+json"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept", accept)
			api.Fail(w, r, fmt.Errorf("wrapped: %w", e))
			body := w.Body.String()
			if w.Code != 400 || len(body) > 5000 || !utf8.ValidString(body) || strings.Contains(body, `\ufffd`) {
				t.Errorf("%s: %d with %d bytes: %.100s", letter, w.Code, len(body), body)
			}
			if !strings.Contains(body, `"field":"f"`) || !strings.Contains(body, `"maximum":5`) || !strings.Contains(body, "…") {
				t.Errorf("%s: %s", letter, body)
			}
		}
		if len(e.Message) < 1<<20 || e.Details["provided"] != long {
			t.Error("the error itself was changed")
		}
	}
}
