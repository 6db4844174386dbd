function f() {
	const s = "😀é"; let x = ;
}
