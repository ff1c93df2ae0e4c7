/** An empty list of emails: an example request to copy, or the search without results. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useScope } from '../../../api/scope.ts';
import { Code, Empty } from '../../../ui/states.tsx';

type Props = {
  /** The list without a search. */
  to: '/$project/$environment/emails' | '/$project/$environment/test-inbox';
  q: string;
};

export function NoEmails({ to, q }: Props): ReactNode {
  const scope = useScope();
  if (q !== '') {
    return (
      <Empty title="No matching emails">
        <p className="break-words">
          Nothing was found for <code className="font-mono text-sm">{q}</code>.{' '}
          <Link to={to} params={scope} className="text-accent underline">
            Show all emails
          </Link>
        </p>
      </Empty>
    );
  }
  const isTest = scope.environment === 'test';
  return (
    <Empty title="No emails yet">
      <p>
        Emails sent with a {scope.environment} key appear here immediately, with their delivery
        status.{isTest && ' In the test environment a simulator replies instead of mail servers.'}
      </p>
      <Code what="request" text={requestThatSends(isTest)} />
    </Empty>
  );
}

function requestThatSends(isTest: boolean): string {
  const [domain, to] = isTest
    ? ['acme.test', 'delivered@simulator.test']
    : ['YOUR_DOMAIN', 'YOU@EXAMPLE.COM'];
  const email = { from: `Hello <hello@${domain}>`, to, subject: 'Hello', html: '<p>It works.</p>' };
  return [
    `curl ${location.origin}/v1/emails \\`,
    `  -H 'Authorization: Bearer YOUR_${isTest ? 'TEST' : 'LIVE'}_KEY' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(email)}'`,
  ].join('\n');
}
