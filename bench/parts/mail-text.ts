/**
 * Makes the measured mail: an order confirmation like those of shops, with tables, inline styles, links and some
 * non-ASCII letters. It has exactly the requested size.
 */
import { TOKEN } from './template.ts';

export const SENDER_DOMAIN = 'shop.test';
/** Sending domain that also publishes its Ed25519 key. */
export const TWICE_SIGNED_DOMAIN = 'market.test';
export const SUBJECT = `Your order ${TOKEN} is on its way`;

const HEAD = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Order ${TOKEN}</title></head>
<body style="margin:0;background:#f4f4f5;font-family:Helvetica,Arial,sans-serif;color:#18181b">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0"><tr><td align="center">
<h1 style="font-size:22px;line-height:28px">Thank you, Zo\u00eb!</h1>
<p style="font-size:15px">Your order <b>${TOKEN}</b> left our caf\u00e9 in K\u00f6ln this morning.
Follow it on its <a href="https://shop.test/track/${TOKEN}">tracking page</a>.</p>
<table role="presentation" width="560" cellpadding="8">
`;

const ITEM = `<tr style="border-bottom:1px solid #e4e4e7"><td>
<a href="https://shop.test/item/${TOKEN}"><img src="https://cdn.shop.test/${TOKEN}.jpg" width="64"
height="64" alt="A bag of beans"></a></td><td style="font-size:14px">Espresso, 250 g, no. ${TOKEN}
</td><td align="right" style="font-size:14px">\u20ac 12.50</td></tr>
`;

const FOOT = `</table>
<p style="font-size:12px;color:#71717a">You get this because you ordered at shop.test.
<a href="https://shop.test/help?order=${TOKEN}">Help</a></p></td></tr></table></body></html>
`;

const FILLER = 'Freshly roasted, packed by hand and sent on the same day. ';

/** Returns html with tokens (template.ts), of exactly `sizeBytes` (at least 1,500) in UTF-8. */
export function htmlOf(sizeBytes: number): string {
  const frame = Buffer.byteLength(HEAD + FOOT + '<tr><td></td></tr>\n');
  const items = Math.floor((sizeBytes - frame) / Buffer.byteLength(ITEM));
  const rest = sizeBytes - frame - items * Buffer.byteLength(ITEM);
  const filler = FILLER.repeat(Math.ceil(rest / FILLER.length)).slice(0, rest);
  return `${HEAD}${ITEM.repeat(items)}<tr><td>${filler}</td></tr>\n${FOOT}`;
}
