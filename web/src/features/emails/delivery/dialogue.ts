/** The SMTP dialogue of an attempt in the sections that a reader looks for, with the reply that decided. */

export type DialogueLine = {
  side: 'client' | 'server' | 'note';
  text: string;
  /** The reply that decided the outcome. */
  isDecisive: boolean;
};
export type DialogueSection = { title: string; lines: DialogueLine[] };

/** The section that a command begins. */
const BEGINS: readonly (readonly [RegExp, string])[] = [
  [/^STARTTLS\b/i, 'TLS'],
  [/^AUTH\b/i, 'Sign-in'],
  [/^(?:MAIL|RCPT|DATA|RSET)\b/i, 'Envelope'],
  [/^QUIT\b/i, 'End'],
];
const READY_FOR_MESSAGE = /^354[ -]/;
const SIDES = { C: 'client', S: 'server' } as const;

/** @param code of the reply that decided, or null without one */
export function dialogueSections(
  transcript: readonly string[],
  code: number | null,
): DialogueSection[] {
  const sections: DialogueSection[] = [];
  let title = 'Connection';
  const decisive = decisiveLine(transcript, code);
  transcript.forEach((raw, index) => {
    const line = lineOf(raw, index === decisive);
    if (line.side === 'client') {
      title = BEGINS.find(([command]) => command.test(line.text))?.[1] ?? title;
    }
    const last = sections.at(-1);
    if (last?.title === title) last.lines.push(line);
    else sections.push({ title, lines: [line] });
    if (line.side === 'server' && READY_FOR_MESSAGE.test(line.text)) title = 'Message';
  });
  return sections;
}

function lineOf(raw: string, isDecisive: boolean): DialogueLine {
  const [, letter, text] = /^([CS]): (.*)$/s.exec(raw) ?? [];
  if (letter === undefined || text === undefined) return { side: 'note', text: raw, isDecisive };
  return { side: SIDES[letter as 'C' | 'S'], text, isDecisive };
}

/** The last reply with the code, before the client ended the session. Without a code, the last note. */
function decisiveLine(transcript: readonly string[], code: number | null): number {
  const quit = transcript.findLastIndex((line) => line.startsWith('C: QUIT'));
  const lines = quit < 0 ? transcript : transcript.slice(0, quit);
  if (code === null) return lines.findLastIndex((line) => line.startsWith('('));
  return lines.findLastIndex((line) => line.startsWith(`S: ${code}`));
}
