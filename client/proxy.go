package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

const maxProxyAnswer = 64 << 10

// webSockets returns the client for WebSockets. An HTTP proxy drops Connection and Upgrade from a request to a plain http
// server, so the client requests a tunnel instead (RFC 6455 section 4.1).
func webSockets(carrier *http.Client, base *url.URL) *http.Client {
	t, ok := carrier.Transport.(*http.Transport)
	if !ok || t.Proxy == nil || base.Scheme != "http" { // with TLS there already is a tunnel
		return carrier
	}
	via, err := t.Proxy(&http.Request{URL: base})
	if err != nil || via == nil || via.Scheme != "http" { // socks5 forwards any bytes
		return carrier
	}
	proxy := net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), "80"))
	tunnels := t.Clone()
	dial := tunnels.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	tunnels.Proxy = nil
	tunnels.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, proxy)
		if err != nil {
			return nil, err
		}
		if err := openTunnel(ctx, conn, via, address); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}
	through := *carrier
	through.Transport = tunnels
	return &through
}

// openTunnel requests a connection to an address from the proxy at the other end of conn.
func openTunnel(ctx context.Context, conn net.Conn, via *url.URL, address string) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		ask.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(via.User.Username()+":"+password)))
	}
	if err := ask.Write(conn); err != nil {
		return err
	}
	// Nothing follows the response: the server waits for the handshake.
	answer, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxProxyAnswer)), ask)
	if err != nil {
		return fmt.Errorf("proxy %s does not answer as one: %w", via.Host, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy %s refuses the connection: %s", via.Host, answer.Status)
	}
	return nil
}
