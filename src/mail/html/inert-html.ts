/**
 * Html of strangers as a preview shows it: nothing in it opens a page of its own or a connection. The policy of the
 * page (src/http/dashboard/html-page.ts) refuses the requests of frames and objects, but browsers may connect to their hosts
 * before they ask it, and it does not cover hints such as `<link rel="preconnect">`. A connection tells the sender
 * who reads, and when.
 *
 * The names of the tags change wherever they stand, because what is no tag to one parser may be one to another.
 * Elements without an end tag become others without one, so that what follows is not inside of them.
 */

const WITH_END = /<(\/?)(?=iframe|object|applet|portal|fencedframe)/gi;
const WITHOUT_END = /<(?=frame|embed)/gi;
const LINKS = /<(?=link)/gi;

/** @param remote whether the reader has asked for what other servers have: stylesheets then stay */
export function inertHtml(html: string, { remote }: { remote: boolean }): string {
  const unframed = html.replaceAll(WITH_END, '<$1x-').replaceAll(WITHOUT_END, '<wbr x-');
  return remote ? unframed : unframed.replaceAll(LINKS, '<meta x-');
}
