// Package container runs belljar inside a container of a real engine, with exactly the flags that belljar doctor prints
// there, and checks the AppArmor profile that ships with it.
package container
