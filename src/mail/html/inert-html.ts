/**
 * Makes untrusted html safe for a preview: it opens no other page and no connection. A connection would show the
 * sender who reads, and when. The policy of the page (http/dashboard/html-page.ts) refuses requests of frames and
 * objects, but browsers may connect to their hosts before they apply it. It also does not cover hints such as `<link
 * rel="preconnect">`.
 *
 * Tag names are replaced everywhere, because parsers disagree about tags. Elements without an end tag become
 * others without one, so that they do not enclose the rest.
 */

const WITH_END = /<(\/?)(?=iframe|object|applet|portal|fencedframe)/gi;
const WITHOUT_END = /<(?=frame|embed)/gi;
const LINKS = /<(?=link)/gi;

/** @param remote whether the reader has asked for remote content; stylesheets then stay */
export function inertHtml(html: string, { remote }: { remote: boolean }): string {
  const unframed = html.replaceAll(WITH_END, '<$1x-').replaceAll(WITHOUT_END, '<wbr x-');
  return remote ? unframed : unframed.replaceAll(LINKS, '<meta x-');
}
