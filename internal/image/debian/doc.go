// Package debian makes small root file systems from Debian packages, with the tools that Debian has for that: mmdebstrap,
// as root or as an ordinary user, or debootstrap, as root. So a machine has images without any registry of images.
//
// What is made depends on nothing but the recipe, the suite and what the mirror has that day.
package debian
