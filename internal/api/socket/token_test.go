package socket

import (
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api"
)

// A token with any changed bit is invalid, and so is another caller's token, both for signed and for encrypted tokens.
func TestTokenTampered(t *testing.T) {
	key := func(letter string) []byte { return []byte(strings.Repeat(letter, 32)) }
	for name, sealer := range map[string]func(secret []byte, prefix, purpose string) *api.Sealer{"signed": api.NewSealer, "encrypted": api.NewCipher} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_760_000_000, 0)
			tokens := &Tokens{sealer(key("k"), "p1.", "one"), "here", 30 * time.Minute, func() time.Time { return now }}
			ann := Claims{Provider: "p", Kind: "terminal", ID: "t1", User: "ann", Session: "s1"}
			token, expires := tokens.Issue(ann)
			if !expires.Equal(now.Add(30 * time.Minute)) {
				t.Fatal(expires)
			}
			if c, ok := tokens.Read(token, Claims{User: "ann"}); !ok || c.ID != "t1" || c.Session != "s1" || c.Kind != "terminal" {
				t.Fatal(c, ok)
			}
			for i := range len(token) {
				for bit := range 8 {
					bad := []byte(token)
					bad[i] ^= 1 << bit
					if _, ok := tokens.Read(string(bad), ann); ok {
						t.Fatalf("byte %d, bit %d does not matter", i, bit)
					}
				}
				if _, ok := tokens.Read(token[:i], ann); ok {
					t.Fatalf("%d bytes are enough", i)
				}
			}
			forge := func(change func(*Claims)) string {
				c := Claims{Audience: "here", User: "ann", IssuedAt: now.Unix(), ExpiresAt: now.Unix() + 60}
				change(&c)
				out, err := tokens.Sealer.Seal(c)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			other := func(s *api.Sealer) string {
				out, err := s.Seal(Claims{Audience: "here", User: "ann", ExpiresAt: now.Unix() + 60})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			for name, bad := range map[string]string{
				"audience": forge(func(c *Claims) { c.Audience = "else" }), "user": forge(func(c *Claims) { c.User = "bob" }),
				"expired": forge(func(c *Claims) { c.ExpiresAt = now.Unix() }), "from later": forge(func(c *Claims) { c.IssuedAt = now.Unix() + 61 }),
				"secret": other(sealer(key("l"), "p1.", "one")), "purpose": other(sealer(key("k"), "p1.", "two")), "prefix": other(sealer(key("k"), "p2.", "one")),
				"empty": "", "long": token + strings.Repeat("A", 4000), "appended": token + "A", "dotted": token + ".", "padded": token + "=", "line": token + "\n",
			} {
				if _, ok := tokens.Read(bad, Claims{User: "ann"}); ok {
					t.Error(name)
				}
			}
			for name, want := range map[string]Claims{
				"user": {User: "bob"}, "no user": {}, "kind": {User: "ann", Kind: "chat"}, "session": {User: "ann", Session: "s2"}, "provider": {User: "ann", Provider: "q"},
			} {
				if _, ok := tokens.Read(token, want); ok {
					t.Errorf("read as of another %s", name)
				}
			}
			if _, ok := tokens.Read(forge(func(*Claims) {}), Claims{User: "ann"}); !ok {
				t.Error("a good one is invalid")
			}
			now = now.Add(30 * time.Minute)
			if _, ok := tokens.Read(token, ann); ok {
				t.Error("it never expires")
			}
		})
	}
}
