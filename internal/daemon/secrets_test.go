package daemon

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

// A rotation leaves one key, which opens all secrets. The next start completes an interrupted rotation.
func TestOpenVault(t *testing.T) {
	data, err := openData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	records := memory.New()
	var output strings.Builder
	log := slog.New(slog.NewTextHandler(&output, nil))
	keys := func() []string {
		raw, err := os.ReadFile(data.in(secretsKey))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(raw))
	}
	v, err := openVault(t.Context(), data, records, true, log)
	if err != nil {
		t.Fatal(err)
	}
	first := keys()
	if info, err := os.Stat(data.in(secretsKey)); err != nil || info.Mode().Perm() != 0o600 || len(first) != 1 {
		t.Fatalf("%v, %v, %d keys", info, err, len(first))
	}
	row := store.Secret{Owner: "ann", Name: "TOKEN", Sealed: v.Seal([]byte("correct horse"), "ann\x00TOKEN")}
	if _, err := records.Secrets().Put(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := openVault(t.Context(), data, records, false, log); err != nil || keys()[0] != first[0] {
		t.Errorf("%v, the key has changed without a rotation", err)
	}
	check := func(former string) {
		t.Helper()
		now := keys()
		if len(now) != 1 || now[0] == former {
			t.Errorf("%d keys", len(now))
		}
		v, err := openVault(t.Context(), data, records, false, log)
		if err != nil {
			t.Fatal(err)
		}
		got, err := records.Secrets().Get(t.Context(), "ann", "TOKEN")
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := v.Open(got.Sealed, "ann\x00TOKEN"); err != nil || string(plain) != "correct horse" {
			t.Errorf("%q, %v", plain, err)
		}
	}
	if _, err := openVault(t.Context(), data, records, true, log); err != nil {
		t.Fatal(err)
	}
	check(first[0])
	second := keys()[0]
	if err := os.WriteFile(data.in(secretsKey), []byte(strings.Repeat("ab", 32)+"\n"+second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openVault(t.Context(), data, records, false, log); err != nil {
		t.Fatal(err)
	}
	check(second)

	for _, damaged := range []string{"zz", "abcd"} {
		if err := os.WriteFile(data.in(secretsKey), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openVault(t.Context(), data, records, true, log)
		if err == nil || !strings.Contains(belljar.HintOf(err), "cannot be decrypted") {
			t.Errorf("%q is a key: %v", damaged, err)
		}
		if len(keys()) != 1 {
			t.Errorf("%q: a damaged file was changed", damaged)
		}
	}

	if output.Len() > 0 {
		t.Errorf("it warns of secrets that it can decrypt: %s", &output)
	}
	if err := os.Remove(data.in(secretsKey)); err != nil {
		t.Fatal(err)
	}
	lost, err := records.Secrets().Get(t.Context(), "ann", "TOKEN")
	if err != nil {
		t.Fatal(err)
	}
	for _, rotate := range []bool{false, false, true, false} { // the second start has the new key
		output.Reset()
		if _, err := openVault(t.Context(), data, records, rotate, log); err != nil || !strings.Contains(output.String(), "secrets=1 names=ann/TOKEN ") || len(keys()) != 1 {
			t.Errorf("a lost key, rotated %v: %v, %d keys, %q", rotate, err, len(keys()), &output)
		}
	}
	if now, err := records.Secrets().Get(t.Context(), "ann", "TOKEN"); err != nil || string(now.Sealed) != string(lost.Sealed) {
		t.Errorf("a secret of a lost key is not as it was: %v", err)
	}
}
