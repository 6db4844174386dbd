#!/usr/bin/env -S node --experimental-websocket --no-warnings
// talk.mjs WORKSPACE MESSAGE…: sends messages to the chat program of a workspace, and shows its answers. The answers to its questions are
// lines of standard input: y, n, or stop, which is yes and then interrupts the command. Ctrl-C interrupts, too.
import { createInterface } from 'node:readline'

const [workspace, ...messages] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Where headers cannot be set, as in browsers, a ticket replaces the key.
const ticket = await fetch(`${process.env.BELLJAR_SERVER}/api/v1/sandbox/tickets`, {
  method: 'POST', headers: { 'X-API-KEY': process.env.BELLJAR_API_KEY },
})
const { token } = await ticket.json()
const query = new URLSearchParams({ token, model: process.env.MODEL ?? 'small' })
const socket = new WebSocket(`${workspace.replace(/^http/, 'ws')}/ws/claude-stream?${query}`)
const say = (message) => socket.send(JSON.stringify(message))
const next = () => (messages.length > 0 ? say({ type: 'user', message: messages.shift() }) : socket.close(1000))
process.on('SIGINT', () => say({ type: 'interrupt' }))
let stop = false

const show = {
  async control_request({ request_id, request }) {
    process.stdout.write(`may it run ${request.input.command}? `)
    const answer = (await lines.next()).value ?? 'n'
    console.log(answer)
    stop = answer === 'stop'
    const response = answer === 'n' ? { behavior: 'deny', message: 'no' } : { behavior: 'allow', updatedInput: request.input }
    say({ type: 'control_response', request_id, response })
  },
  assistant({ message }) {
    for (const { text } of message.content) if (text) console.log(`model: ${text}`)
  },
  user({ message }) {
    for (const { content } of message.content) console.log(content.trimEnd())
  },
  system({ subtype, message }) {
    if (subtype === 'connected') next()
    if (subtype === 'running' && stop) say({ type: 'interrupt' })
    if (subtype === 'error' || subtype === 'stderr') console.error(message)
  },
  result({ subtype, message }) {
    console.log(`(${message ?? subtype})`)
    next()
  },
}
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data)
  return show[message.type]?.(message)
}
socket.onclose = ({ code }) => process.exit(code === 1000 ? 0 : 1)
