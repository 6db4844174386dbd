const x = {
