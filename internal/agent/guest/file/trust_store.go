//go:build linux

package file

import (
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"fmt"
)

// trustStore returns the certificates of a bundle as a key store of Java's first format, JKS. It is not encrypted, and has no
// password.
func trustStore(bundle []byte) []byte {
	var entries bytes.Buffer
	count := uint32(0)
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		number(&entries, uint32(2)) // a trusted certificate
		text(&entries, fmt.Sprintf("authority-%d", count))
		number(&entries, uint64(0)) // its time
		text(&entries, "X.509")
		number(&entries, uint32(len(block.Bytes)))
		entries.Write(block.Bytes)
		count++
	}
	var out bytes.Buffer
	number(&out, uint32(0xfeedfeed))
	number(&out, uint32(2)) // the version
	number(&out, count)
	out.Write(entries.Bytes())

	out.Write(make([]byte, 20)) // a checksum with a password, which Java checks only if it has the password
	return out.Bytes()
}

func number(to *bytes.Buffer, n any) { _ = binary.Write(to, binary.BigEndian, n) } // writes to memory cannot fail

func text(to *bytes.Buffer, s string) {
	number(to, uint16(len(s)))
	to.WriteString(s)
}
