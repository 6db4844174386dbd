package dir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	nameFile = "user_id" // in a user's folder that has a hashed name
	longest  = 200       // bytes of a folder's name
	noName   = "%"       // the folder of the user without a name
)

// userFolder returns the name of a user's folder. It is one path element for any user name, and unique.
func userFolder(userID string) string {
	if userID == "" {
		return noName
	}
	var b strings.Builder
	for i := range len(userID) {
		c := userID[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '@' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > longest {
		sum := sha256.Sum256([]byte(userID))
		return "~" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// hashed reports whether a folder has a hashed name.
func hashed(folder string) bool { return strings.HasPrefix(folder, "~") }

// folderUser returns the user of a folder; ok is false if the name is hashed or not a user's.
func folderUser(folder string) (userID string, ok bool) {
	if folder == noName {
		return "", true
	}
	var b strings.Builder
	for i := 0; i < len(folder); i++ {
		if folder[i] != '%' {
			b.WriteByte(folder[i])
			continue
		}
		if i+3 > len(folder) {
			return "", false
		}
		c, err := hex.DecodeString(folder[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	return b.String(), userFolder(b.String()) == folder
}
