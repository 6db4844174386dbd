package web

import (
	"net/http"
	"strings"
)

// disabledFeatures are features of browsers that the page does not use. An injected script cannot use them either.
const disabledFeatures = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), " +
	"magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()"

// setHeaders sets the headers of the page and its files. A worker has the policy of its own script, so files have the policy, too;
// they need no nonce.
func setHeaders(h http.Header, nonce string) {
	h.Set("Content-Security-Policy", policy(nonce))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", disabledFeatures)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// policy returns the content security policy. The terminal sets style attributes for colours. svelte-trusted-html is the framework's
// own policy for its templates; belljar makes the address of the page's workers.
func policy(nonce string) string {
	styles := "style-src 'self'"
	if nonce != "" {
		styles += " 'nonce-" + nonce + "'"
	}
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", styles, "style-src-attr 'unsafe-inline'", "img-src 'self' blob:", "font-src 'self'",
		"connect-src 'self'", "worker-src 'self'", "base-uri 'self'", "form-action 'none'", "frame-ancestors 'none'",
		"require-trusted-types-for 'script'", "trusted-types svelte-trusted-html belljar",
	}, "; ")
}
