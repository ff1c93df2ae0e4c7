/** An empty list of emails: an example request to copy, or the search without results. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Mail, SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { useApi, useScope } from '../../../api/scope.ts';
import { ButtonLink } from '../../../ui/button.tsx';
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
      <Empty
        title="No matching emails"
        icon={SearchX}
        action={
          <ButtonLink to={to} params={scope}>
            Show all emails
          </ButtonLink>
        }
      >
        <p className="break-words">
          Nothing was found for <code className="font-mono text-sm">{q}</code>.
        </p>
      </Empty>
    );
  }
  return <FirstEmail />;
}

/** A request that this project accepts, with a domain that it may send from. */
function FirstEmail(): ReactNode {
  const { scope, query } = useApi();
  const isTest = scope.environment === 'test';
  const domains = useQuery(query('listDomains', { query: { limit: 100 } }));
  const domain = domains.data?.data.find(({ status }) => status === 'verified')?.name;
  const cannotSend = domains.isSuccess && domain === undefined;
  return (
    <Empty
      title="No emails yet"
      icon={Mail}
      action={
        cannotSend && (
          <ButtonLink look="primary" to="/$project/$environment/domains" params={scope}>
            Add a domain
          </ButtonLink>
        )
      }
    >
      {cannotSend ? (
        <p>
          This project cannot send yet. Add the domain of your sender addresses and publish its DNS
          records.
        </p>
      ) : (
        <p>
          Emails sent with a {scope.environment} key appear here immediately, with their delivery
          status.{isTest && ' In the test environment a simulator replies instead of mail servers.'}
        </p>
      )}
      {domain !== undefined && (
        <>
          <Code what="request" text={requestThatSends(domain, isTest)} />
          <p>
            Insert a key for YOUR_{isTest ? 'TEST' : 'LIVE'}_KEY. It is shown once, when you{' '}
            <Link to="/$project/$environment/api-keys" params={scope} className="link">
              create it
            </Link>
            .
          </p>
        </>
      )}
    </Empty>
  );
}

function requestThatSends(domain: string, isTest: boolean): string {
  const to = isTest ? 'delivered@simulator.test' : 'YOU@EXAMPLE.COM';
  const email = { from: `Hello <hello@${domain}>`, to, subject: 'Hello', html: '<p>It works.</p>' };
  return [
    `curl ${location.origin}/v1/emails \\`,
    `  -H 'Authorization: Bearer YOUR_${isTest ? 'TEST' : 'LIVE'}_KEY' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(email, null, 2).replaceAll('\n', '\n  ')}'`,
  ].join('\n');
}
