/** Puts our mechanisms into an SPF record of others. Pure. */

/** Puts ours first, because a record ends at its `all` or `redirect`. */
export function mergeSpf(theirs: string, ours: string): string {
  const termsOf = (text: string): string[] => text.trim().split(/\s+/).slice(1);
  const has = new Set(termsOf(theirs).map((term) => term.toLowerCase()));
  const isEnd = (term: string): boolean => /^[-~?+]?all$|^redirect=/i.test(term);
  const added = termsOf(ours).filter((term) => !isEnd(term) && !has.has(term.toLowerCase()));
  return ['v=spf1', ...added, ...termsOf(theirs)].join(' ');
}
