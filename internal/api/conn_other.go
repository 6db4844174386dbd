//go:build !linux

package api

import "net"

func limitUnsent(tcp *net.TCPConn) {
	_ = tcp.SetWriteBuffer(unsentBytes) // an error only costs memory
}
