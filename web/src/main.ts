import { mount } from "svelte";
import App from "./App.svelte";
import "./theme.css";
import { begin } from "./client.svelte.ts";

const begun = begin(); // first: a code leaves the address
await new Promise((resolve) => setTimeout(resolve)); // another task: both in one would hold the page up for long
mount(App, { target: document.getElementById("page")! });
await begun;
