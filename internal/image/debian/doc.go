// Package debian makes small root file systems from Debian packages, with Debian's own tools: mmdebstrap, as root or as
// an ordinary user, or debootstrap, as root. So a machine can have images without a registry.
//
// The result depends only on the recipe, the suite and the present content of the mirror.
package debian
