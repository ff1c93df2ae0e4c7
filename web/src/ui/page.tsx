import { type ReactNode, useEffect } from 'react';

/** The head of a screen: its name, one sentence, at most one primary button. */
export function PageHead({
  title,
  about,
  children,
}: {
  title: string;
  about?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  useEffect(() => {
    document.title = `${title} · Letterhaus`;
  }, [title]);
  return (
    <header className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-3">
      <div className="min-w-0 grow">
        <h1 className="text-lg font-semibold break-words">{title}</h1>
        {about && <p className="text-sm text-muted">{about}</p>}
      </div>
      {children}
    </header>
  );
}
