package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// secretsKey is the file with the keys that encrypt stored secrets, in hexadecimal: the current key in the first line, then older
// keys that a rotation has not replaced everywhere yet.
const secretsKey = "secrets-key"

// lostSecrets describes the loss without the key.
const lostSecrets = "secrets on record cannot be decrypted: each must be stored again"

// openVault returns the vault with the keys of a data folder. With rotate, or after an interrupted rotation, it encrypts all stored
// secrets with the current key and removes the older keys.
func openVault(ctx context.Context, data *dataDir, records store.Store, rotate bool, log *slog.Logger) (*secret.Vault, error) {
	fresh := func() string { return hex.EncodeToString(secret.NewKey()) }
	text, made, err := data.secret(secretsKey, fresh)
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(text)
	if rotate && !made {
		lines = append([]string{fresh()}, lines...)
	}
	var keys [][]byte
	for _, line := range lines {
		key, err := hex.DecodeString(line)
		if err != nil {
			return nil, damagedSecret(data.in(secretsKey), lostSecrets, errors.New("a line is not hexadecimal"))
		}
		keys = append(keys, key)
	}
	vault, err := secret.New(keys...)
	if err != nil {
		return nil, damagedSecret(data.in(secretsKey), lostSecrets, err)
	}
	if len(keys) > 1 {
		if vault, err = replaceKeys(ctx, data, records, vault, lines, keys[0]); err != nil {
			return nil, err
		}
	}
	return vault, warnSealed(ctx, records, vault, log)
}

// replaceKeys encrypts all stored secrets with the first of several keys, and removes the other keys.
func replaceKeys(ctx context.Context, data *dataDir, records store.Store, vault *secret.Vault, lines []string, first []byte) (*secret.Vault, error) {
	// The new key is on disk before it is used, and the older keys stay until no secret needs them.
	if err := writeSynced(data.in(secretsKey), strings.Join(lines, "\n")+"\n"); err != nil {
		return nil, unusable(data.path, err)
	}
	if err := service.Reseal(ctx, records, vault); err != nil {
		return nil, fmt.Errorf("rotate the key of secrets: %w", err)
	}
	if err := writeSynced(data.in(secretsKey), lines[0]+"\n"); err != nil {
		return nil, unusable(data.path, err)
	}
	return secret.New(first)
}

// mostNamed limits the secrets that a warning names.
const mostNamed = 20

// warnSealed warns about stored secrets that were encrypted with another key.
func warnSealed(ctx context.Context, records store.Store, vault *secret.Vault, log *slog.Logger) error {
	stored, err := records.Secrets().All(ctx)
	lost := slices.DeleteFunc(stored, func(s store.Secret) bool { return vault.Current(s.Sealed) })
	if len(lost) > 0 {
		var names []string
		for _, s := range lost[:min(len(lost), mostNamed)] {
			names = append(names, strings.TrimPrefix(s.Owner+"/"+s.Name, "/")) // a shared secret has no owner
		}
		log.Warn("stored secrets were encrypted with another key than the one in "+secretsKey, "secrets", len(lost), "names", strings.Join(names, ", "),
			"hint", "restore that file from a backup, or store them again")
	}
	return err
}
