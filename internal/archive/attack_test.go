package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
)

// Entries other than files and folders are refused, in tar and zip.
func TestTypes(t *testing.T) {
	for rule, e := range map[string]entry{
		"symlink":   {name: "a", kind: tar.TypeSymlink, link: "/etc/passwd"},
		"hard_link": {name: "a", kind: tar.TypeLink, link: "first"},
		"device":    {name: "a", kind: tar.TypeChar},
		"fifo":      {name: "a", kind: tar.TypeFifo},
		"type":      {name: "a", kind: tar.TypeCont},
	} {
		_, err := read(t, belljar.UploadTar, tarOf(t, entry{name: "first"}, e), archive.Limits{})
		t.Run("tar/"+rule, func(t *testing.T) { wantRule(t, err, belljar.CodeInvalidRequest, rule) })
		if hint := belljar.HintOf(err); rule != "type" && !strings.Contains(hint, "tar -h") {
			t.Errorf("tar/%s: hint %q", rule, hint)
		}
	}
	for rule, mode := range map[string]fs.FileMode{
		"symlink": fs.ModeSymlink | 0o777, "device": fs.ModeDevice | 0o600, "fifo": fs.ModeNamedPipe | 0o600,
		"socket": fs.ModeSocket | 0o600, "type": fs.ModeDir | 0o755,
	} {
		_, err := read(t, belljar.UploadZip, zipOf(t, entry{name: "first"}, entry{name: "a", body: "/etc/passwd", zipMode: mode}), archive.Limits{})
		t.Run("zip/"+rule, func(t *testing.T) { wantRule(t, err, belljar.CodeInvalidRequest, rule) })
	}
}

func TestSparse(t *testing.T) {
	old := tarOf(t, entry{name: "a", body: "x"})
	old[156] = tar.TypeGNUSparse
	copy(old[257:], "ustar  \x00")
	checksum(old[:512])
	_, err := read(t, belljar.UploadTar, old, archive.Limits{})
	wantRule(t, err, belljar.CodeInvalidRequest, "sparse")

	// The pax forms are made by hand: a writer refuses them.
	for name, records := range map[string]string{
		"0.0": "GNU.sparse.size=1000000000|GNU.sparse.numblocks=1|GNU.sparse.offset=999999999|GNU.sparse.numbytes=1",
		"0.1": "GNU.sparse.size=1000000000|GNU.sparse.numblocks=1|GNU.sparse.map=999999999,1|GNU.sparse.name=a",
		"1.0": "GNU.sparse.major=1|GNU.sparse.minor=0|GNU.sparse.realsize=1000000000|GNU.sparse.name=a",
	} {
		body := "x"
		if name == "1.0" {
			body = "1\n999999999\n1\n"
			body += strings.Repeat("\x00", 512-len(body)) + "x"
		}
		b := append(paxHeader(records), tarOf(t, entry{name: "a", body: body})...)
		_, err := read(t, belljar.UploadTar, b, archive.Limits{})
		t.Run(name, func(t *testing.T) { wantRule(t, err, belljar.CodeInvalidRequest, "sparse") })
	}
}

// paxHeader returns an extended header with records separated by |.
func paxHeader(records string) []byte {
	var body []byte
	for r := range strings.SplitSeq(records, "|") {
		n := len(r) + 3
		for len(fmt.Sprintf("%d %s\n", n, r)) != n {
			n++
		}
		body = fmt.Appendf(body, "%d %s\n", n, r)
	}
	head := make([]byte, 512)
	copy(head, "pax")
	copy(head[100:], "0000644\x00")
	copy(head[124:], fmt.Sprintf("%011o\x00", len(body)))
	copy(head[136:], "00000000000\x00")
	head[156] = tar.TypeXHeader
	copy(head[257:], "ustar\x0000")
	checksum(head)
	return append(append(head, body...), make([]byte, (512-len(body)%512)%512)...)
}

// checksum corrects the checksum of a tar header.
func checksum(head []byte) {
	copy(head[148:], "        ")
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
}

func TestTarLies(t *testing.T) {
	good := tarOf(t, entry{name: "a", body: "hello"}, entry{name: "b", body: "world"})
	set := func(b []byte, size int64) []byte {
		b = bytes.Clone(b)
		copy(b[124:], fmt.Sprintf("%011o\x00", size))
		checksum(b[:512])
		return b
	}
	global := tarOf(t, entry{name: "g", kind: tar.TypeXGlobalHeader, pax: map[string]string{"path": "../evil", "comment": "x"}}, entry{name: "a"})
	for name, test := range map[string]struct {
		body []byte
		rule string
	}{
		"empty":            {nil, "cut_off"},
		"garbage":          {bytes.Repeat([]byte("garbage!"), 200), "malformed"},
		"no end mark":      {good[:len(good)-1024], "cut_off"},
		"half an end mark": {good[:len(good)-512], "cut_off"},
		"cut in a file":    {good[:514], "malformed"},
		"cut in a header":  {good[:1024+100], "malformed"},
		"behind its end":   {append(bytes.Clone(good), "more"...), "trailing"},
		"another behind":   {append(bytes.Clone(good), good...), "trailing"},
		"size beyond":      {set(good, 1<<20), "malformed"},
		"huge size":        {set(good, 1<<33-1), "bytes"},
		"size too small":   {set(tarOf(t, entry{name: "a", body: strings.Repeat("x", 600)}), 5), "malformed"},
		"pax size beyond":  {append(paxHeader("size=100000000"), good...), "bytes"},
		"pax path up":      {append(paxHeader("path=../../x"), good...), "traversal"},
		"pax path newline": {append(paxHeader("path=a\nb"), good...), "control"},
		"pax link":         {append(paxHeader("linkpath=/etc"), tarOf(t, entry{name: "a", kind: tar.TypeSymlink, link: "b"})...), "symlink"},
		"pax long path":    {append(paxHeader("path="+strings.Repeat("x/", 50_000)+"x"), good...), "name"},
		"endless names":    {tarOf(t, entry{name: strings.Repeat("long/", 100) + "x", kind: tar.TypeReg}), "depth"},
	} {
		_, err := read(t, belljar.UploadTar, test.body, archive.Limits{})
		t.Run(name, func(t *testing.T) {
			code := belljar.CodeInvalidRequest
			switch test.rule {
			case "traversal":
				code = belljar.CodePathEscapes
			case "bytes":
				code = belljar.CodeTooLarge
			}
			wantRule(t, err, code, test.rule)
		})
	}
	for name, body := range map[string][]byte{
		"padding":       append(bytes.Clone(good), make([]byte, 20*512)...),
		"global header": global,
		"nothing in it": tarOf(t),
	} {
		if _, err := read(t, belljar.UploadTar, body, archive.Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGzipLies(t *testing.T) {
	good := gz(t, tarOf(t, entry{name: "a", body: "hello"}))
	broken := bytes.Clone(good)
	broken[len(broken)-5] ^= 1 // its checksum
	for name, test := range map[string]struct {
		body []byte
		rule string
	}{
		"no gzip":       {tarOf(t, entry{name: "a"}), "malformed"},
		"no tar":        {gz(t, bytes.Repeat([]byte("garbage!"), 200)), "malformed"},
		"cut off":       {good[:len(good)-4], "malformed"},
		"bad checksum":  {broken, "malformed"},
		"two streams":   {append(bytes.Clone(good), good...), "trailing"},
		"garbage after": {append(bytes.Clone(good), 0), "trailing"},
		"gzip in gzip":  {gz(t, good), "malformed"},
	} {
		_, err := read(t, belljar.UploadTarGz, test.body, archive.Limits{})
		t.Run(name, func(t *testing.T) { wantRule(t, err, belljar.CodeInvalidRequest, test.rule) })
	}
}

// Bombs are refused in every format, without much memory or time.
func TestBombs(t *testing.T) {
	zeros := strings.Repeat("\x00", 16<<20)
	many := make([]entry, 10_000)
	for i := range many {
		many[i].name = fmt.Sprintf("f%d", i)
	}
	folders := make([]entry, 10_000)
	for i := range folders {
		folders[i].name = fmt.Sprintf("d%d/", i)
	}
	quine := []byte(zeros)
	for range 3 {
		quine = gz(t, quine)
	}
	for name, test := range map[string]struct {
		format belljar.UploadFormat
		body   []byte
		rule   string
	}{
		"tar.gz of zeros":  {belljar.UploadTarGz, gz(t, tarOf(t, entry{name: "a", body: zeros})), "ratio"},
		"zip of zeros":     {belljar.UploadZip, zipOf(t, entry{name: "a", body: zeros}), "ratio"},
		"no files, padded": {belljar.UploadTarGz, gz(t, append(tarOf(t), zeros...)), "ratio"},
		"10,000 in tar":    {belljar.UploadTar, tarOf(t, many...), "files"},
		"10,000 in tar.gz": {belljar.UploadTarGz, gz(t, tarOf(t, many...)), "files"},
		"10,000 in zip":    {belljar.UploadZip, zipOf(t, many...), "files"},
		"10,000 folders":   {belljar.UploadTar, tarOf(t, folders...), "files"},
		"folders in zip":   {belljar.UploadZip, zipOf(t, folders...), "files"},
		"overlapping":      {belljar.UploadZip, quoted(t, 50, 200_000), "overlap"},
		"global headers":   {belljar.UploadTar, bytes.Repeat(paxGlobal(t), 10_000), "files"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(t, test.format, test.body, archive.Limits{})
			runtime.ReadMemStats(&after)
			code := belljar.CodeTooLarge
			if test.rule == "overlap" {
				code = belljar.CodeInvalidRequest
			}
			wantRule(t, err, code, test.rule)
			if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 {
				t.Errorf("took %d MiB", took>>20)
			}
		})
	}
	// A nested archive is an ordinary file and is not unpacked.
	b, err := read(t, belljar.UploadTar, tarOf(t, entry{name: "bomb.gz", body: string(quine)}), archive.Limits{})
	if err != nil || b.Files() != 1 || b.Bytes() != int64(len(quine)) {
		t.Errorf("%v", err)
	}
}

func paxGlobal(t *testing.T) []byte {
	b := tarOf(t, entry{name: "g", kind: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "x"}})
	return b[:len(b)-1024]
}

// An upload of the largest allowed size takes no more memory than a small one.
func TestMemoryIsFlat(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	whole := tarOf(t, entry{name: "large", body: string(body)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := read(t, belljar.UploadTar, whole, archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.WriteTar(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("took %d KiB for %d MiB", took>>10, len(body)>>20)
	}
}

// quoted returns a bomb with overlapping entries: each begins with a stored block that quotes the header of the next,
// so that all of them end in the same kernel.
func quoted(t *testing.T, n, kernel int) []byte {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	plain := make([]byte, kernel)
	w.Write(plain)
	w.Close()

	type file struct {
		header, data, contents []byte
	}
	files := make([]file, n)
	data, contents := packed.Bytes(), plain
	for i := n - 1; i >= 0; i-- {
		name := fmt.Sprintf("f%d", i)
		h := []byte("PK\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00\x00\x00")
		h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(contents))
		h = binary.LittleEndian.AppendUint32(h, uint32(len(data)))
		h = binary.LittleEndian.AppendUint32(h, uint32(len(contents)))
		h = binary.LittleEndian.AppendUint16(h, uint16(len(name)))
		h = append(append(h, 0, 0), name...)
		files[i] = file{h, data, contents}
		quote := []byte{0}
		quote = binary.LittleEndian.AppendUint16(quote, uint16(len(h)))
		quote = binary.LittleEndian.AppendUint16(quote, ^uint16(len(h)))
		data = append(append(quote, h...), data...)
		contents = append(bytes.Clone(h), contents...)
	}
	out := append(bytes.Clone(files[0].header), files[0].data...)
	at, directory := uint32(0), []byte{}
	for _, f := range files {
		directory = append(directory, "PK\x01\x02\x14\x03"...)
		directory = append(directory, f.header[4:30]...)
		directory = append(directory, make([]byte, 10)...)
		directory = binary.LittleEndian.AppendUint32(directory, at)
		directory = append(directory, f.header[30:]...)
		at += uint32(len(f.header)) + 5
	}
	return append(append(out, directory...), end(n, len(directory), len(out))...)
}

// end returns the record at a zip archive's end.
func end(n, size, offset int) []byte {
	e := []byte("PK\x05\x06\x00\x00\x00\x00")
	e = binary.LittleEndian.AppendUint16(e, uint16(n))
	e = binary.LittleEndian.AppendUint16(e, uint16(n))
	e = binary.LittleEndian.AppendUint32(e, uint32(size))
	e = binary.LittleEndian.AppendUint32(e, uint32(offset))
	return append(e, 0, 0)
}

// The bomb works: without the rule the standard library would unpack it.
func TestQuotedIsReal(t *testing.T) {
	body := quoted(t, 5, 1000)
	r, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		n, err := io.Copy(io.Discard, rc)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		total += n
	}
	if total < 5000 {
		t.Errorf("it unpacks to %d bytes only", total)
	}
}

func TestZipLies(t *testing.T) {
	good := zipOf(t, entry{name: "a", body: strings.Repeat("hello ", 100)}, entry{name: "b", body: "world", store: true})
	at := bytes.Index(good, []byte("PK\x01\x02"))
	tail := bytes.Index(good, []byte("PK\x05\x06"))
	put := func(where int, value uint64, size int) []byte {
		b := bytes.Clone(good)
		var raw [8]byte
		binary.LittleEndian.PutUint64(raw[:], value)
		copy(b[where:where+size], raw[:size])
		return b
	}
	for name, test := range map[string]struct {
		body []byte
		rule string
	}{
		"empty":                {nil, "malformed"},
		"garbage":              {bytes.Repeat([]byte("garbage!"), 200), "malformed"},
		"cut off":              {good[:len(good)-10], "malformed"},
		"encrypted":            {put(at+8, 1, 2), "encrypted"},
		"strongly encrypted":   {put(at+8, 1<<6, 2), "encrypted"},
		"unknown method":       {put(at+10, 12, 2), "method"},
		"wrong checksum":       {put(at+16, 0, 4), "malformed"},
		"packed beyond":        {put(at+20, 1<<30, 4), "size"},
		"larger than it is":    {put(at+24, 700, 4), "malformed"},
		"smaller than it is":   {put(at+24, 10, 4), "malformed"},
		"zip64 size":           {put(at+24, 1<<32-1, 4), "bytes"},
		"zip64 count":          {put(tail+10, 1<<16-1, 2), "zip64"},
		"zip64 offset":         {put(tail+16, 1<<32-1, 4), "zip64"},
		"fewer than there are": {put2(put2(good, tail+8, 1), tail+10, 1), "malformed"},
		"several disks":        {put(tail+4, 1, 2), "malformed"},
		"directory elsewhere":  {put(tail+16, 0, 4), "malformed"},
		"garbage before":       {append([]byte("#!/bin/sh\n"), good...), "malformed"},
		"garbage behind":       {append(bytes.Clone(good), "x"...), "trailing"},
		"header elsewhere":     {put(at+42, uint64(tail), 4), "malformed"},
		"the same header":      {put(bytes.LastIndex(good, []byte("PK\x01\x02"))+42, 0, 4), "overlap"},
	} {
		_, err := read(t, belljar.UploadZip, test.body, archive.Limits{})
		t.Run(name, func(t *testing.T) {
			if test.rule == "bytes" {
				wantRule(t, err, belljar.CodeTooLarge, test.rule)
				return
			}
			wantRule(t, err, belljar.CodeInvalidRequest, test.rule)
		})
	}
	withComment := bytes.Clone(good)
	withComment[tail+20] = 5
	if _, err := read(t, belljar.UploadZip, append(withComment, "hello"...), archive.Limits{}); err != nil {
		t.Errorf("with a comment: %v", err)
	}
}

// put2 returns b with a 16-bit number replaced.
func put2(b []byte, where int, value uint16) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint16(b[where:], value)
	return b
}
