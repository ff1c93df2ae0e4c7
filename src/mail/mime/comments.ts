/** Comments of structured fields (RFC 5322 §3.2.2): nested parentheses outside of quoted strings. Linear. */

export type Uncommented = {
  /** The text, with a space in place of each comment. */
  text: string;
  /** The comments in order, without parentheses and with quoted pairs resolved. */
  comments: readonly string[];
};

/** Extracts the comments of a text; null when parentheses do not match. */
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
