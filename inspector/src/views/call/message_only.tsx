// A call whose pack was not recorded, or is not in an exported file: only its reply is shown.

import type { JSX } from "preact";
import { Await, Empty, MessageView, pairResults } from "../../components";
import { get, p, useResource, type Message, type ModelCall, type Page } from "../../data";
import { route, scopeKey, scopeQuery } from "../../router";

export function MessageOnly({ call }: { call: ModelCall }): JSX.Element {
  const scope = route.value.scope!;
  const seq = call.reply ?? 0;
  const reply = useResource(
    seq ? `message ${scopeKey.value} ${seq}` : null,
    (signal) => get<Page<Message>>(p`/sessions/${scope.session}/messages`, { ...scopeQuery(scope), before: seq + 1, limit: 1 }, signal),
    { frozen: true },
  );
  return (
    <div class="stack">
      {call.pack ? <Empty title={`The pack ${call.pack.id} is not in this file`}>The file has the packs of its newest calls. Open the store itself with <code>holdfast inspect</code> to see what the model saw in this one.</Empty> : <Empty title="What the model saw is not known">No pack was recorded with this reply. Ask for a pack with <code>session.pack()</code> before the call, and its manifest is stored with the reply.</Empty>}
      {seq > 0 && <div class="pane-box"><Await of={reply}>{(page) => <>{page.items.map((message) => <MessageView key={message.seq} message={message} results={pairResults([message])} />)}</>}</Await></div>}
    </div>
  );
}
