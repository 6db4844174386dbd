// This file lets the package declare functions without a body (see child.go).
