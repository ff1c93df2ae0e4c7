/** The content of an email in the chosen tab. */
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Diagnosis, Email } from '../../../../../sdk/src/api.ts';
import { respond } from '../../../api/client.ts';
import { useApi } from '../../../api/scope.ts';
import { Headers } from '../content/headers.tsx';
import { Attachments, Checks, useInspection } from '../content/inspection.tsx';
import { type PreviewView, WIDTHS } from '../../../ui/preview-view.tsx';
import { EmailPreview } from '../content/preview.tsx';
import { Code, Empty, Problem, RowsSkeleton } from '../../../ui/states.tsx';

export type ContentTab = 'preview' | 'checks' | 'headers' | 'text' | 'html' | 'source';

type Props = {
  email: Email;
  tab: ContentTab;
  authentication: Diagnosis['sender']['authentication'];
};

export function EmailContent({ email, tab, authentication }: Props): ReactNode {
  if (email.html === null && email.text === null) {
    return (
      <Empty title="The content was removed">
        <p>Content is deleted after its retention period. The delivery status is kept.</p>
      </Empty>
    );
  }
  if (tab === 'source') return <Source email={email} />;
  if (tab === 'preview') return <Preview email={email} />;
  if (tab === 'headers' || tab === 'checks') {
    return <Inspected email={email} tab={tab} authentication={authentication} />;
  }
  if (tab === 'text') return <Text email={email} />;
  if (!email.html) return <p className="p-4 text-muted">This email is plain text.</p>;
  return (
    <div className="p-4">
      <Code what="html" text={email.html} />
    </div>
  );
}

function Text({ email }: { email: Email }): ReactNode {
  const inspection = useInspection(email.id);
  const text = email.text ?? inspection.data?.text;
  if (text == null && inspection.isPending) return <RowsSkeleton rows={6} />;
  if (text == null && inspection.isError) {
    return <Problem error={inspection.error} retry={() => void inspection.refetch()} />;
  }
  return (
    <div className="space-y-3 p-4">
      {email.text === null && (
        <p className="text-sm text-muted">
          Generated from the HTML, for mail programs that show plain text.
        </p>
      )}
      <Code what="text" text={text ?? ''} />
    </div>
  );
}

function Preview({ email }: { email: Email }): ReactNode {
  const navigate = useNavigate();
  const { width: chosen, dark } = useSearch({ strict: false });
  const inspection = useInspection(email.id);
  const view: PreviewView = {
    width: WIDTHS.find((one) => one === chosen) ?? '600',
    isDark: dark !== undefined,
  };
  const keep = ({ width, isDark }: PreviewView): void =>
    void navigate({
      to: '.',
      params: true,
      search: (all) => ({ ...all, width, dark: isDark ? 'yes' : undefined }),
      replace: true,
    });
  return (
    <div className="space-y-3 p-4">
      {inspection.isSuccess && <Attachments inspection={inspection.data} />}
      <EmailPreview email={email} view={view} onView={keep} />
    </div>
  );
}

function Inspected({ email, tab, authentication }: Props): ReactNode {
  const inspection = useInspection(email.id);
  if (inspection.isPending) return <RowsSkeleton rows={6} />;
  if (inspection.isError) {
    return <Problem error={inspection.error} retry={() => void inspection.refetch()} />;
  }
  return (
    <div className="p-4">
      {tab === 'checks' ? (
        <Checks inspection={inspection.data} />
      ) : (
        <Headers inspection={inspection.data} authentication={authentication} />
      )}
    </div>
  );
}

/** The raw message of the first recipient. */
function Source({ email }: { email: Email }): ReactNode {
  const { key, scope } = useApi();
  const source = useQuery({
    queryKey: [...key, 'source', email.id],
    queryFn: async ({ signal }) =>
      (await respond('getEmailContent', { path: { id: email.id }, scope, signal })).text(),
  });
  if (source.isPending) return <RowsSkeleton rows={6} />;
  if (source.isError) return <Problem error={source.error} retry={() => void source.refetch()} />;
  return (
    <div className="p-4">
      <Code what="source" text={source.data} />
    </div>
  );
}
