import { mount } from "svelte";
import App from "./App.svelte";
import "./theme.css";
import { begin } from "./client.svelte.ts";

const begun = begin(); // first: a code leaves the address
mount(App, { target: document.getElementById("page")! });
await begun;
