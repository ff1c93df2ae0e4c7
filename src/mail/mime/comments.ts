/**
 * Comments of structured header fields (RFC 5322 §3.2.2): text in parentheses, nested, outside of quoted strings.
 * One pass, linear in the text.
 */

export type Uncommented = {
  /** With a space in place of each comment. */
  text: string;
  /** Without their parentheses, in order; quoted pairs as the characters that they stand for. */
  comments: readonly string[];
};

/** Takes the comments out of a text; null: a comment is not closed, or closed without being opened. */
export function takeOutComments(value: string): Uncommented | null {
  if (!/[()]/.test(value)) return { text: value, comments: [] };
  const comments: string[] = [];
  let [text, comment] = ['', ''];
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < value.length; at += 1) {
    const character = value[at]!;
    const isPair = character === '\\' && (isQuoted || depth > 0);
    if (isPair) at += 1;
    if (depth > 0) {
      if (!isPair && character === ')') depth -= 1;
      if (depth === 0) comments.push(comment);
      else comment += isPair ? (value[at] ?? '') : character;
      if (!isPair && character === '(') depth += 1;
    } else if (isQuoted || (character !== '(' && character !== ')')) {
      if (character === '"') isQuoted = !isQuoted;
      text += isPair ? value.slice(at - 1, at + 1) : character;
    } else {
      if (character === ')') return null;
      [depth, comment] = [1, ''];
      text += ' ';
    }
  }
  return depth === 0 ? { text, comments } : null;
}
