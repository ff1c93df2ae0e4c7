/** The SMTP dialogue of an attempt beside the page, by sections, with the deciding reply and its meaning. */
import type { ReactNode } from 'react';
import type { Recipient } from '../../../../../sdk/src/api.ts';
import { CopyButton } from '../../../ui/copy.tsx';
import { Drawer } from '../../../ui/drawer.tsx';
import type { Tone } from '../../../ui/tone.ts';
import type { Attempt } from './attempts.ts';
import { type DialogueLine, dialogueSections } from './dialogue.ts';

const TONES: Readonly<Partial<Record<Attempt['event'], Tone>>> = {
  'email.delivered': 'good',
  'email.sent': 'good',
  'email.delivery_delayed': 'wait',
  'email.bounced': 'bad',
  'email.failed': 'bad',
};
const LETTERS = { client: 'C', server: 'S', note: '' } as const;
const SPEAKERS = { client: 'We: ', server: 'Server: ', note: '' } as const;

/** @param props.reason what the deciding reply means, or null when it is not the last attempt or was accepted */
export function DialogueDrawer(props: {
  attempt: Attempt;
  reason: Recipient['reason'];
  onClose: () => void;
}): ReactNode {
  const { attempt, reason, onClose } = props;
  const { mx, ip, tls } = attempt.server;
  const where = [mx && (ip === null ? mx : `${mx} [${ip}]`), tls?.version].filter(Boolean);
  const tone = TONES[attempt.event] ?? 'open';
  return (
    <Drawer
      title={`SMTP dialogue, attempt ${attempt.number}`}
      about={where.join(', ')}
      actions={<CopyButton text={attempt.transcript.join('\n')} what="dialogue" />}
      onClose={onClose}
    >
      <div className="space-y-4 p-5" data-tone={tone}>
        {reason && (
          <p className="rounded-card border border-[color-mix(in_oklab,var(--tone)_22%,var(--color-line))] bg-[color-mix(in_oklab,var(--tone-tint)_38%,var(--color-surface))] p-3 text-sm">
            {reason.advice}
          </p>
        )}
        <Dialogue attempt={attempt} />
      </div>
    </Drawer>
  );
}

export function Dialogue({ attempt }: { attempt: Attempt }): ReactNode {
  const sections = dialogueSections(attempt.transcript, attempt.reply?.code ?? null);
  return sections.map(({ title, lines }, index) => (
    <section key={index}>
      <h3 className="mb-1 text-sm text-muted">{title}</h3>
      <ol className="-mx-2 font-mono text-xs leading-relaxed">
        {lines.map((line, at) => (
          <Line key={at} line={line} />
        ))}
      </ol>
    </section>
  ));
}

function Line({ line }: { line: DialogueLine }): ReactNode {
  const { side, text, isDecisive } = line;
  const look = isDecisive
    ? 'bg-(--tone-tint) text-(--tone) font-medium'
    : side === 'note'
      ? 'text-muted'
      : '';
  return (
    <li
      aria-current={isDecisive ? 'true' : undefined}
      className={`flex gap-3 rounded px-2 ${look}`}
    >
      <span aria-hidden className="w-3 shrink-0 text-muted">
        {LETTERS[side]}
      </span>
      <span className="sr-only">{SPEAKERS[side]}</span>
      <span className="min-w-0 whitespace-pre-wrap [overflow-wrap:anywhere]">{text}</span>
    </li>
  );
}
