package dir

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/belljar/belljar"
)

// Sizes of a file's parts, in bytes.
const (
	headSize   = 16
	recordHead = 9
	sealSize   = recordHead + 24
	maxPayload = 16 << 20
)

const (
	magic   = "BJLG"
	version = 1
)

// kind is the type of a record.
type kind byte

const (
	kindStdout kind = 1 + iota
	kindStderr
	kindEvent
	kindTruncated
	kindHeartbeat
	kindSeal
	kindBuild  // output of a compiler
	kindResult // of code in a context
)

// errShort means that a record is longer than the available bytes, errDamaged that it is invalid.
var (
	errShort   = errors.New("record is cut short")
	errDamaged = errors.New("record is damaged")
)

// codec writes and reads the records of one file.
type codec struct {
	salt [8]byte
	base uint32 // CRC-32C of the salt
}

// newCodec returns the codec of a new file.
func newCodec() codec {
	var salt [8]byte
	rand.Read(salt[:])
	return saltedCodec(salt)
}

func saltedCodec(salt [8]byte) codec {
	return codec{salt, crc32.Checksum(salt[:], crc32.MakeTable(crc32.Castagnoli))}
}

// readHead returns the codec of a file that begins with b. It returns [errDamaged] for a foreign file, and another
// error if a later version of Belljar wrote it.
func readHead(b []byte) (codec, error) {
	if len(b) < headSize || string(b[:4]) != magic || b[4] == 0 || b[5]|b[6]|b[7] != 0 {
		return codec{}, errDamaged
	}
	if b[4] != version {
		return codec{}, fmt.Errorf("log has format %d, this program knows %d only", b[4], version)
	}
	return saltedCodec([8]byte(b[8:headSize])), nil
}

// appendHead appends the head of the file to b.
func (c codec) appendHead(b []byte) []byte {
	b = append(b, magic...)
	b = append(b, version, 0, 0, 0)
	return append(b, c.salt[:]...)
}

// sum returns the checksum of record seq, whose kind and payload are body.
func (c codec) sum(seq uint64, body []byte) uint32 {
	return crc32.Update(c.base^uint32(seq)^uint32(seq>>32), crc32.MakeTable(crc32.Castagnoli), body)
}

// append appends record seq to b. An error leaves b unchanged.
func (c codec) append(b []byte, seq uint64, f belljar.Frame) ([]byte, error) {
	begin := len(b)
	b = append(b, make([]byte, recordHead)...)
	var k kind
	switch f.Type {
	case belljar.FrameStdout:
		k, b = kindStdout, append(b, f.Output...)
	case belljar.FrameStderr:
		k, b = kindStderr, append(b, f.Output...)
		if f.Step == belljar.StepBuild {
			k = kindBuild
		}
	case belljar.FrameResult:
		k, b = kindResult, append(b, f.Output...)
	case belljar.FrameEvent:
		k = kindEvent
		b = binary.AppendUvarint(b, uint64(len(f.Event)))
		b = append(b, f.Event...)
		if f.Data != nil {
			data, err := json.Marshal(f.Data)
			if err != nil {
				return b[:begin], fmt.Errorf("data of event %q: %w", f.Event, err)
			}
			b = append(b, data...)
		}
	case belljar.FrameTruncated:
		k, b = kindTruncated, append(b, f.Reason...)
	case belljar.FrameHeartbeat:
		k = kindHeartbeat
		b = binary.LittleEndian.AppendUint64(b, uint64(f.Time.Unix()))
		b = binary.LittleEndian.AppendUint32(b, uint32(f.Time.Nanosecond()))
	default:
		return b[:begin], fmt.Errorf("unknown frame type %q", f.Type)
	}
	if n := len(b) - begin - recordHead; n > maxPayload {
		return b[:begin], fmt.Errorf("frame of %d bytes, at most %d are possible", n, maxPayload)
	}
	c.close(b[begin:], seq, k)
	return b, nil
}

// appendSeal appends the last record of a file with count frames. It begins at offset at.
func (c codec) appendSeal(b []byte, count uint64, at int64) []byte {
	begin := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = append(b, c.salt[:]...)
	b = binary.LittleEndian.AppendUint64(b, count)
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	c.close(b[begin:], count+1, kindSeal)
	return b
}

// close fills in the head of the record b.
func (c codec) close(b []byte, seq uint64, k kind) {
	b[8] = byte(k)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-recordHead))
	binary.LittleEndian.PutUint32(b[4:], c.sum(seq, b[8:]))
}

// record is a parsed record. Its payload shares the memory that it was read from.
type record struct {
	kind    kind
	payload []byte
	size    int // of the whole record, in bytes
}

// next returns record seq at the start of b. With [errShort], size is the least number of bytes that it needs. It does
// not check the sum of trusted bytes, which come from memory.
func (c codec) next(b []byte, seq uint64, trusted bool) (record, error) {
	if len(b) < recordHead {
		return record{size: recordHead}, errShort
	}
	length := binary.LittleEndian.Uint32(b)
	if length > maxPayload {
		return record{}, errDamaged
	}
	size := recordHead + int(length)
	if len(b) < size {
		return record{size: size}, errShort
	}
	if !trusted && binary.LittleEndian.Uint32(b[4:]) != c.sum(seq, b[8:size]) {
		return record{}, errDamaged
	}
	return record{kind(b[8]), b[recordHead:size:size], size}, nil
}

// seals reports whether r, which begins at offset at, ends a file of count frames.
func (c codec) seals(r record, count uint64, at int64) bool {
	return r.kind == kindSeal && len(r.payload) == sealSize-recordHead &&
		[8]byte(r.payload) == c.salt &&
		binary.LittleEndian.Uint64(r.payload[8:]) == count &&
		binary.LittleEndian.Uint64(r.payload[16:]) == uint64(at)
}

// frame decodes r as frame seq. The output shares the memory of r's payload.
func (r record) frame(seq uint64) (belljar.Frame, error) {
	f := belljar.Frame{Seq: seq}
	p := r.payload
	switch r.kind {
	case kindStdout, kindStderr, kindBuild, kindResult:
		switch f.Type = belljar.FrameStderr; r.kind {
		case kindStdout:
			f.Type = belljar.FrameStdout
		case kindResult:
			f.Type = belljar.FrameResult
		}
		if r.kind == kindBuild {
			f.Step = belljar.StepBuild
		}
		if len(p) > 0 {
			f.Output = p
		}
	case kindEvent:
		f.Type = belljar.FrameEvent
		length, n := binary.Uvarint(p)
		if n <= 0 || length > uint64(len(p)-n) {
			return belljar.Frame{}, errDamaged
		}
		end := n + int(length)
		f.Event = string(p[n:end])
		if data := p[end:]; len(data) > 0 {
			if err := json.Unmarshal(data, &f.Data); err != nil || f.Data == nil {
				return belljar.Frame{}, errDamaged
			}
		}
	case kindTruncated:
		f.Type, f.Reason = belljar.FrameTruncated, string(p)
	case kindHeartbeat:
		if len(p) != 12 {
			return belljar.Frame{}, errDamaged
		}
		sec, nsec := int64(binary.LittleEndian.Uint64(p)), binary.LittleEndian.Uint32(p[8:])
		f.Type, f.Time = belljar.FrameHeartbeat, time.Unix(sec, int64(nsec)).UTC()
	default:
		return belljar.Frame{}, errDamaged
	}
	return f, nil
}
