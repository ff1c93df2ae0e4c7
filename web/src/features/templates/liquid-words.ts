/** Tags and filters of Liquid that the service knows, and names that a source defines, for the editor. */

export const TAGS = [
  'assign',
  'break',
  'capture',
  'case',
  'comment',
  'continue',
  'else',
  'elsif',
  'endcapture',
  'endcase',
  'endcomment',
  'endfor',
  'endif',
  'endraw',
  'endunless',
  'for',
  'if',
  'raw',
  'unless',
  'when',
] as const;

export const FILTERS =
  'abs append at_least at_most capitalize ceil compact concat date default divided_by downcase escape escape_once first floor join last lstrip map minus modulo newline_to_br plus prepend raw remove remove_first replace replace_first reverse round rstrip size slice sort sort_natural split squish strip strip_newlines sum times truncate truncatewords uniq upcase url_encode where'.split(
    ' ',
  );

/** The place of the caret in the source, and the word before it. */
export type Completing = { kind: 'filter' | 'tag' | 'value'; typed: string };

/** Returns the place at the end of `text`, the source up to the caret; null outside of outputs and tags. */
export function completingAt(text: string): Completing | null {
  const opened = /\{(\{|%)-?[^{}%]*$/.exec(text);
  if (opened === null) return null;
  const typed = /\w*$/.exec(text)![0];
  const before = opened[0].slice(2, opened[0].length - typed.length);
  if (/\|\s*$/.test(before)) return { kind: 'filter', typed };
  if (opened[1] === '%' && /^-?\s*$/.test(before)) return { kind: 'tag', typed };
  // A member of an object, or a text: the service does not know what it may be.
  return /[.'"]$/.test(before) ? null : { kind: 'value', typed };
}

/** Names that loops and assignments of a source define. */
export function definedNames(source: string): string[] {
  const defined = source.matchAll(/\{%-?\s*(?:for|assign|capture)\s+(\w+)/g);
  return [...new Set([...defined].map(([, name = '']) => name))];
}
