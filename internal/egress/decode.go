package egress

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// decode decodes the body of a response that is encoded although the request asked for no encoding.
func (p *proxy) decode(r *http.Response) error {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	var open func(io.Reader) (io.Reader, error)
	switch coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		open = func(in io.Reader) (io.Reader, error) { return gzip.NewReader(in) }
	case "deflate":
		open = inflate
	default:
		return refusal("the answer of " + p.c.host + " is encoded in a way in which belljar cannot look for the brokered secret")
	}
	r.Body = &decoding{ReadCloser: r.Body, c: p.c, open: open}
	r.ContentLength = -1
	for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Md5", "Content-Digest", "Accept-Ranges"} {
		r.Header.Del(name)
	}
	return nil
}

// inflate reads HTTP's deflate encoding. Some servers send it without the zlib header.
func inflate(in io.Reader) (io.Reader, error) {
	r := bufio.NewReader(in)
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// decoding is a body that is decoded while it is read. The decoded bytes have a limit of their own; reports count the received bytes.
type decoding struct {
	io.ReadCloser
	c       *conn
	open    func(io.Reader) (io.Reader, error)
	decoded io.Reader
}

func (d *decoding) Read(p []byte) (int, error) {
	if d.decoded == nil {
		decoded, err := d.open(d.ReadCloser)
		if err != nil {
			return 0, err // io.EOF if there is no body at all
		}
		d.decoded = decoded
	}
	n, err := d.decoded.Read(p)
	if !d.c.spend(&d.c.gate.decoded, n) {
		return 0, errCut
	}
	if errors.Is(err, io.EOF) {
		// The gate has not checked bytes after the end of the encoding.
		if rest, _ := d.ReadCloser.Read(make([]byte, 1)); rest > 0 {
			return n, errors.New("egress: data after the end of the encoded body")
		}
	}
	return n, err
}
