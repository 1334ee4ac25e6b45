# docker build -t headcount . && docker run --rm -v "$PWD:/work" headcount demo --out out
FROM python:3.12-slim
COPY . /opt/headcount
RUN pip install --no-cache-dir --constraint /opt/headcount/constraints.txt "/opt/headcount[onnx]"
WORKDIR /work
ENTRYPOINT ["headcount"]
