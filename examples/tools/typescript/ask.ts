// Asks a model a question, with the tools of toolbox.ts: node build/ask.js QUESTION.
import process from "node:process";
import { Belljar } from "belljar";
import { Toolbox, tools } from "./toolbox.js";

interface Message {
  role: string;
  content: string | null;
  tool_call_id?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
}

/** Requests the model's next message and returns it. */
async function complete(messages: Message[]): Promise<Message> {
  const { OPENAI_BASE_URL: base, OPENAI_API_KEY: key, OPENAI_MODEL: model } = process.env;
  const answer = await fetch(`${base}/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model, messages, tools }),
  });
  if (!answer.ok) throw new Error(`the model answers ${answer.status}: ${await answer.text()}`);
  const { choices } = (await answer.json()) as { choices: [{ message: Message }] };
  return choices[0].message;
}

async function main(question: string): Promise<void> {
  const messages: Message[] = [{ role: "user", content: question }];
  const belljar = process.env["BELLJAR_SERVER"] ? new Belljar() : await Belljar.local();
  try {
    const session = await belljar.sessions.create({ ttl_sec: 900 });
    const toolbox = new Toolbox(session);
    try {
      for (let turn = 0; turn < 20; turn++) {
        const message = await complete(messages);
        messages.push(message);
        if (!message.tool_calls?.length) {
          console.log(message.content);
          return;
        }
        for (const call of message.tool_calls) {
          const result = await toolbox.call(call.function.name, call.function.arguments);
          console.log(`${call.function.name}: ${result.split(/\s+/).join(" ").trim()}`);
          messages.push({ role: "tool", tool_call_id: call.id, content: result });
        }
      }
      throw new Error("it is not done after 20 turns");
    } finally {
      await session.destroy();
    }
  } finally {
    await belljar.close();
  }
}

await main(process.argv[2] ?? "");
