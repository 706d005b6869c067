// A rendered pack as a request that can be sent: JSON, curl, Python.
//
// Law: content cannot leave its literal. Lines of JSON never equal the word that ends a here-document, and a text of Python
// is written with the escapes of JSON, which Python reads the same.

import type { Json } from "../../data";

export interface Provider {
  key: string;
  label: string;
}

export const PROVIDERS: readonly Provider[] = [
  { key: "anthropic", label: "Anthropic" },
  { key: "openai", label: "OpenAI chat" },
  { key: "openai-responses", label: "OpenAI responses" },
  { key: "gemini", label: "Gemini" },
  { key: "bedrock", label: "Bedrock" },
  { key: "litellm", label: "LiteLLM" },
  { key: "text", label: "Text" },
];

/** The format in which a provider was most likely called. */
export function formatOf(provider: string | undefined): string {
  const name = (provider ?? "").toLowerCase();
  if (name.includes("openai")) return "openai";
  if (name.includes("google") || name.includes("gemini")) return "gemini";
  if (name.includes("bedrock") || name.includes("aws")) return "bedrock";
  return "anthropic";
}

export function toJson(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function quoteShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function post(url: string, headers: string[], body: Json): string {
  const lines = [`curl ${quoteShell(url)}`, ...headers.map((header) => `  -H ${header}`), "  -H 'Content-Type: application/json'", "  --data-binary @- <<'JSON'"];
  return `${lines.join(" \\\n")}\n${JSON.stringify(body, null, 2)}\nJSON\n`;
}

/** The arguments of Gemini's client as the body of its REST API, which has the settings in other places. */
function toGeminiBody(request: { [key: string]: Json }): { [key: string]: Json } {
  const { system_instruction: system, tools, ...settings } = (request.config ?? {}) as { [key: string]: Json };
  const body: { [key: string]: Json } = { contents: request.contents ?? [] };
  if (typeof system === "string" && system) body.systemInstruction = { parts: [{ text: system }] };
  if (tools) body.tools = tools;
  const named = Object.entries(settings).map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value] as const);
  if (named.length) body.generationConfig = Object.fromEntries(named);
  return body;
}

export function toCurl(provider: string, value: Json): string | null {
  const body = (value ?? {}) as { [key: string]: Json };
  const bearer = '"Authorization: Bearer $OPENAI_API_KEY"';
  switch (provider) {
    case "anthropic":
      return post("https://api.anthropic.com/v1/messages", ['"x-api-key: $ANTHROPIC_API_KEY"', "'anthropic-version: 2023-06-01'"], body);
    case "openai":
      return post("https://api.openai.com/v1/chat/completions", [bearer], body);
    case "openai-responses":
      return post("https://api.openai.com/v1/responses", [bearer], body);
    case "gemini":
      return post(`https://generativelanguage.googleapis.com/v1beta/models/${encodeURIComponent(String(body.model ?? ""))}:generateContent`, ['"x-goog-api-key: $GEMINI_API_KEY"'], toGeminiBody(body));
    case "litellm":
      return post("http://127.0.0.1:4000/chat/completions", ['"Authorization: Bearer $LITELLM_API_KEY"'], body);
    case "bedrock":
      return `aws bedrock-runtime converse --cli-input-json file:///dev/stdin <<'JSON'\n${JSON.stringify(body, null, 2)}\nJSON\n`;
    default:
      return null;
  }
}

/** A JSON value as a literal of Python. */
export function toLiteral(value: Json, indent = ""): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return String(value);
  const inner = `${indent}    `;
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return `[\n${value.map((item) => `${inner}${toLiteral(item, inner)},\n`).join("")}${indent}]`;
  }
  const entries = Object.entries(value);
  if (!entries.length) return "{}";
  return `{\n${entries.map(([name, item]) => `${inner}${JSON.stringify(name)}: ${toLiteral(item, inner)},\n`).join("")}${indent}}`;
}

const PYTHON: Record<string, [imports: string, call: string]> = {
  anthropic: ["import anthropic", "anthropic.Anthropic().messages.create(**request)"],
  openai: ["import openai", "openai.OpenAI().chat.completions.create(**request)"],
  "openai-responses": ["import openai", "openai.OpenAI().responses.create(**request)"],
  gemini: ["from google import genai", "genai.Client().models.generate_content(**request)"],
  bedrock: ["import boto3", 'boto3.client("bedrock-runtime").converse(**request)'],
  litellm: ["import litellm", "litellm.completion(**request)"],
};

export function toPython(provider: string, value: Json): string | null {
  const known = PYTHON[provider];
  if (!known) return null;
  return `${known[0]}\n\nrequest = ${toLiteral(value)}\n\nreply = ${known[1]}\nprint(reply)\n`;
}

/** The request to /api that has the same data. */
export function toApiCurl(path: string): string {
  return `curl -H "Authorization: Bearer $HOLDFAST_KEY" ${quoteShell(`${location.origin}/api${path}`)}`;
}
