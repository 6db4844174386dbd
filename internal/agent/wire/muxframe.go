package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Limits of the multiplexer; see the package comment.
const (
	MaxMuxBody    = 16 << 10 // bytes of one frame's body
	MaxMuxStreams = 256      // open at once
	MuxReserved   = 8        // of these, for urgent requests
	MuxWindow     = 64 << 10 // unread bytes of one stream
	MuxGrant      = 48 << 10 // bytes of the agent in transit; a pipe holds 64 KiB
)

// ErrMux is an invalid mux frame, or one that violates a rule. It ends the epoch.
var ErrMux = errors.New("broken multiplexer stream")

type muxType uint8

const (
	muxReset muxType = iota + 1
	muxReady
	muxGrant
	muxOpen
	muxData
	muxWindow
	muxClose
	muxBroken
)

const (
	muxHead       = 5 // type, stream
	muxTail       = 4 // CRC
	maxMuxRaw     = muxHead + MaxMuxBody + muxTail
	maxMuxEncoded = maxMuxRaw + maxMuxRaw/254 + 1 // encoded, without the delimiter
)

// muxCost is an upper bound for the size on the byte stream of a frame with n bytes of body.
func muxCost(n int) int {
	raw := muxHead + n + muxTail
	return raw + raw/254 + 2
}

type nonce [16]byte

// epoch is the additional input of the CRCs in one direction of an epoch.
type epoch struct {
	nonce nonce
	next  uint64 // number of the next frame
	raw   []byte // buffer of append
}

// seal returns the CRC of the next frame, without advancing.
func (e *epoch) seal(frame []byte) uint32 {
	var prefix [24]byte
	copy(prefix[:], e.nonce[:])
	binary.BigEndian.PutUint64(prefix[16:], e.next)
	return crc32.Update(crc32.Checksum(prefix[:], castagnoli()), castagnoli(), frame)
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// muxFrame is a decoded frame. Its body is valid until the next one is decoded.
type muxFrame struct {
	kind   muxType
	stream uint32
	body   []byte
}

// append encodes f after dst, with the delimiter, as the next frame of e; e is nil for a reset.
func (f muxFrame) append(dst []byte, e *epoch) []byte {
	var raw []byte
	if e != nil {
		raw = e.raw[:0]
	}
	raw = append(raw, byte(f.kind))
	raw = binary.BigEndian.AppendUint32(raw, f.stream)
	raw = append(raw, f.body...)
	if e == nil {
		raw = binary.BigEndian.AppendUint32(raw, crc32.Checksum(raw, castagnoli()))
	} else {
		raw = binary.BigEndian.AppendUint32(raw, e.seal(raw))
		e.next++
		e.raw = raw
	}
	return append(appendCOBS(dst, raw), 0)
}

// parseMuxFrame decodes the bytes between two delimiters, in place. A reset is valid in any epoch; with e nil nothing else is.
func parseMuxFrame(encoded []byte, e *epoch) (muxFrame, error) {
	raw, ok := decodeCOBS(encoded)
	if !ok || len(raw) < muxHead+muxTail || len(raw) > maxMuxRaw {
		return muxFrame{}, fmt.Errorf("%w: malformed frame of %d bytes", ErrMux, len(encoded))
	}
	raw, tail := raw[:len(raw)-muxTail], raw[len(raw)-muxTail:]
	f := muxFrame{kind: muxType(raw[0]), stream: binary.BigEndian.Uint32(raw[1:]), body: raw[muxHead:]}
	sum := binary.BigEndian.Uint32(tail)
	switch {
	case f.kind == muxReset:
		if sum != crc32.Checksum(raw, castagnoli()) {
			return muxFrame{}, fmt.Errorf("%w: reset fails its checksum", ErrMux)
		}
	case e == nil || sum != e.seal(raw):
		return muxFrame{}, fmt.Errorf("%w: frame fails its checksum", ErrMux)
	default:
		e.next++
	}
	if !f.wellFormed() {
		return muxFrame{}, fmt.Errorf("%w: type %d on stream %d with %d bytes", ErrMux, f.kind, f.stream, len(f.body))
	}
	return f, nil
}

func (f muxFrame) wellFormed() bool {
	n := len(f.body)
	switch f.kind {
	case muxReset:
		return f.stream == 0 && n == len(nonce{})+4
	case muxReady:
		return f.stream == 0 && n == len(nonce{})
	case muxGrant:
		return f.stream == 0 && n == 4
	case muxBroken:
		return f.stream == 0 && n == 0
	case muxOpen, muxClose:
		return f.stream != 0 && n == 0
	case muxData:
		return f.stream != 0 && n > 0 && n <= MaxMuxBody
	case muxWindow:
		return f.stream != 0 && n == 4
	}
	return false
}

// number returns the body of a grant or window.
func (f muxFrame) number() int { return int(binary.BigEndian.Uint32(f.body)) }

// appendCOBS encodes src after dst without a 0x00 (Consistent Overhead Byte Stuffing): each block is its length plus
// one, then the bytes up to the next 0x00, which the block's end stands for unless it is 254 bytes long.
func appendCOBS(dst, src []byte) []byte {
	for {
		for len(src) > 0 && src[0] == 0 { // a shortcut for runs of 0x00, which are common
			dst = append(dst, 1)
			src = src[1:]
		}
		block := src[:min(len(src), 254)]
		zero := bytes.IndexByte(block, 0)
		if zero >= 0 {
			block = block[:zero]
		}
		dst = append(append(dst, byte(len(block)+1)), block...)
		src = src[len(block):]
		if zero >= 0 {
			src = src[1:]
			continue // a trailing 0x00 leaves an empty last block
		}
		if len(src) == 0 {
			return dst
		}
	}
}

// decodeCOBS decodes src in place; false if it is not valid COBS.
func decodeCOBS(src []byte) ([]byte, bool) {
	if len(src) == 0 || bytes.IndexByte(src, 0) >= 0 {
		return nil, false
	}
	out := src[:0]
	for {
		n := int(src[0])
		if n > len(src) {
			return nil, false
		}
		out = append(out, src[1:n]...)
		src = src[n:]
		if len(src) == 0 {
			return out, true
		}
		if n < 255 {
			out = append(out, 0)
		}
	}
}
