/** Templates to begin with. Each is a complete email that works in mail programs, in light and dark, and on a phone. */
import type { TemplateVariable } from '../../../../sdk/src/api.ts';

export type Starter = {
  key: string;
  title: string;
  about: string;
  content: { subject: string; html: string; variables: TemplateVariable[] };
};

/** Mail programs ignore most style sheets, so the styles of an email stand at its elements. */
function page(body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
</head>
<body style="margin:0;padding:24px 12px;font-family:system-ui,-apple-system,'Segoe UI',Arial,sans-serif;font-size:16px;line-height:1.5">
  <div style="max-width:560px;margin:0 auto">
${body}
  </div>
</body>
</html>
`;
}

const HEADING = 'font-size:22px;line-height:1.3;margin:0 0 16px';
const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:6px;background:#1d4ed8;color:#ffffff;font-weight:600;text-decoration:none';
const SMALL = 'font-size:14px;opacity:0.8';

export const STARTERS: readonly Starter[] = [
  {
    key: 'blank',
    title: 'Blank',
    about: 'A heading and a paragraph.',
    content: {
      subject: 'Hello {{ name }}',
      html: '<!doctype html>\n<h1>Hello {{ name }}</h1>\n<p>Write your email here.</p>\n',
      variables: [{ name: 'name' }],
    },
  },
  {
    key: 'confirm',
    title: 'Confirm an address',
    about: 'A link that a new account opens.',
    content: {
      subject: 'Confirm your email address',
      html: page(`    <h1 style="${HEADING}">Welcome, {{ name }}</h1>
    <p>Confirm that this is your address, and your account is ready.</p>
    <p style="margin:24px 0"><a href="{{ confirm_url }}" style="${BUTTON}">Confirm address</a></p>
    <p style="${SMALL}">Or open this link: {{ confirm_url }}</p>
    <p style="${SMALL}">You did not sign up? Ignore this email, and nothing happens.</p>`),
      variables: [{ name: 'name' }, { name: 'confirm_url' }],
    },
  },
  {
    key: 'reset',
    title: 'Reset a password',
    about: 'A link that expires, and advice for a reader who did not ask for it.',
    content: {
      subject: 'Reset your password',
      html: page(`    <h1 style="${HEADING}">Reset your password</h1>
    <p>Somebody asked for a new password for {{ email }}. The link works for {{ minutes }} minutes.</p>
    <p style="margin:24px 0"><a href="{{ reset_url }}" style="${BUTTON}">Choose a new password</a></p>
    <p style="${SMALL}">Or open this link: {{ reset_url }}</p>
    <p style="${SMALL}">It was not you? Your password stays as it is.</p>`),
      variables: [
        { name: 'email' },
        { name: 'reset_url' },
        { name: 'minutes', type: 'number', default: 60 },
      ],
    },
  },
  {
    key: 'receipt',
    title: 'Receipt',
    about: 'A table of items with a total.',
    content: {
      subject: 'Your receipt {{ number }}',
      html: page(`    <h1 style="${HEADING}">Thank you, {{ name }}</h1>
    <p>This is your receipt {{ number }}.</p>
    <table role="presentation" width="100%" cellspacing="0" cellpadding="0" style="border-collapse:collapse">
      {% for item in items %}
      <tr>
        <td style="padding:8px 0;border-bottom:1px solid #99999955">{{ item.name }}</td>
        <td align="right" style="padding:8px 0;border-bottom:1px solid #99999955">{{ item.price }}</td>
      </tr>
      {% endfor %}
      <tr>
        <td style="padding:12px 0;font-weight:600">Total</td>
        <td align="right" style="padding:12px 0;font-weight:600">{{ total }}</td>
      </tr>
    </table>`),
      variables: [
        { name: 'name' },
        { name: 'number' },
        { name: 'items', type: 'list', default: [{ name: 'Tea', price: '4.50' }] },
        { name: 'total' },
      ],
    },
  },
  {
    key: 'notice',
    title: 'Notification',
    about: 'A title, a text and an optional link.',
    content: {
      subject: '{{ title }}',
      html: page(`    <h1 style="${HEADING}">{{ title }}</h1>
    <p>{{ text | newline_to_br }}</p>
    {% if url != "" %}
    <p style="margin:24px 0"><a href="{{ url }}" style="${BUTTON}">{{ action }}</a></p>
    {% endif %}`),
      variables: [
        { name: 'title' },
        { name: 'text' },
        { name: 'url', default: '' },
        { name: 'action', default: 'Open' },
      ],
    },
  },
];
